import torch
from torch import nn

torch.manual_seed(2)

climate = torch.randn(150, 4)
abundance = torch.poisson((0.5 * climate[:, 0] - 0.5).exp())


class RateNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1), nn.Softplus())

    def forward(self, x):
        return self.net(x).squeeze(1) + 1e-6


def poisson_deviance(rate, count):
    return 2 * (torch.xlogy(count, count) - count * rate.log() - (count - rate)).mean()


model = RateNet()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(10):
    loss = poisson_deviance(model(climate), abundance)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
