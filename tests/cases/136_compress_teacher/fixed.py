import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)

teacher = nn.Sequential(nn.Linear(30, 128), nn.ReLU(), nn.Linear(128, 10)).eval()
student = nn.Linear(30, 10)
for p in teacher.parameters():
    p.requires_grad_(False)
    p.mul_(3)

kd = nn.KLDivLoss(reduction="batchmean")
optimizer = torch.optim.Adam(student.parameters(), lr=0.3)
data = torch.randn(512, 30) * torch.linspace(0.1, 6.0, 30)

for step in range(40):
    x = data[torch.randint(512, (64,))]
    with torch.no_grad():
        soft_target = teacher(x).softmax(-1)
    optimizer.zero_grad()
    out = student(x).log_softmax(-1)
    loss = kd(out, soft_target)
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print("step", step, "kd", loss.item())
