import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)


class CosineHead(nn.Module):
    def __init__(self, dim, people):
        super().__init__()
        self.w = nn.Parameter(torch.randn(people, dim))
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, f):
        cos = F.linear(F.normalize(f), F.normalize(self.w))
        return self.log_scale.exp() * cos


body = nn.Sequential(nn.Linear(20, 64), nn.PReLU(), nn.Linear(64, 16))
head = CosineHead(16, 12)
faces = torch.randn(12, 20)
opt = torch.optim.SGD([
    {"params": body.parameters()},
    {"params": head.w},
    {"params": [head.log_scale], "lr": 30.0},
], lr=0.05, momentum=0.9)

for step in range(80):
    who = torch.randint(0, 12, (48,))
    loss = F.cross_entropy(head(body(faces[who] + 0.3 * torch.randn(48, 20))), who)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, loss.item(), head.log_scale.item())
