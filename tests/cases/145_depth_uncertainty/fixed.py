import torch
import torch.nn as nn


class DepthNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 64), nn.ReLU())
        self.depth = nn.Linear(64, 1)
        self.s = nn.Linear(64, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.depth(h), self.s(h)


def attenuated_loss(depth, s, target):
    precision = torch.exp(-s.clamp(min=-6.0))
    return (precision * (depth - target) ** 2 + s).mean()


torch.manual_seed(9)
x = 500 * torch.randn(200, 10)
target = x[:, :1].abs() / 100
model = DepthNet()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    depth, s = model(x)
    loss = attenuated_loss(depth, s, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, loss.item(), s.min().item())
