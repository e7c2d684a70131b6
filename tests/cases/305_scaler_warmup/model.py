import torch
import torch.nn as nn

torch.manual_seed(0)

net = nn.Sequential(nn.Conv1d(3, 16, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, 1))
opt = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 24, growth_interval=20)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 40)

signal = torch.randn(48, 3, 24)
target = 8 * signal.mean(dim=(1, 2), keepdim=False).unsqueeze(1)
skipped = 0
for step in range(40):
    with torch.autocast(device_type="cpu", dtype=torch.float16):
        loss = ((net(signal).float() - target) ** 2).mean() * 30
    opt.zero_grad()
    scaler.scale(loss).backward()
    before = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    skipped += scaler.get_scale() < before
    sched.step()
    if step % 20 == 0:
        print(step, loss.item(), scaler.get_scale())
print("skipped steps", int(skipped), "final loss", loss.item())
