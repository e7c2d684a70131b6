import torch
import torch.nn as nn

torch.manual_seed(3)

states = torch.randn(128, 6)
value = (states[:, :1] * states[:, 1:2]).tanh()

net = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, eps=1e-15)
value_weight = 1e-7
scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 24)

for step in range(60):
    with torch.autocast("cpu", dtype=torch.float16):
        v = net(states)
        error = (v - value).square().mean()
    loss = value_weight * error
    opt.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    if step % 15 == 0:
        g = torch.cat([p.grad.flatten() for p in net.parameters()])
        print(step, f"error {error.item():.4f}", f"zero gradients {(g == 0).float().mean().item():.2f}")
