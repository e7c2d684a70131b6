import torch
from torch import nn

torch.manual_seed(2)

x = torch.randn(150, 4)
count = torch.poisson((0.5 * x[:, 0] - 0.5).exp())


def mean_log_count(count):
    safe = torch.where(count > 0, count, torch.ones_like(count))
    return torch.where(count > 0, safe.log(), torch.zeros_like(count)).mean()


def deviance(rate, count):
    return 2 * (torch.xlogy(count, count) - count * rate.log() - count + rate).mean()


net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1), nn.Softplus())
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
print("zeros", int((count == 0).sum()), "mean log", mean_log_count(count).item())
for epoch in range(40):
    loss = deviance(net(x).squeeze(1) + 1e-6, count)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 10 == 0:
        print(epoch, loss.item())
