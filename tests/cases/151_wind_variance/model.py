import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)


class MeanVar(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(5, 24), nn.Tanh())
        self.mean = nn.Linear(24, 1)
        self.var = nn.Linear(24, 1)

    def forward(self, x):
        h = self.shared(x)
        return self.mean(h), F.relu(self.var(h))


def gaussian_nll(mean, var, y):
    return 0.5 * (torch.log(var) + (y - mean) ** 2 / var).mean()


x = torch.randn(160, 5)
speed = 6 + x[:, :1] + 0.5 * x[:, 1:2].abs() * torch.randn(160, 1)
net = MeanVar()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(20):
    mean, var = net(x)
    loss = gaussian_nll(mean, var, speed)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 5 == 0:
        print(step, loss.item())
