import torch
from torch import nn

torch.manual_seed(5)


def poisson_nll(rate, count, seen):
    rate = torch.where(seen > 0, rate, 1.0)
    ll = count * torch.log(rate) - rate
    return -(ll * seen).sum() / seen.sum()


class VisitRate(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 20)
        self.fc2 = nn.Linear(20, 4)

    def forward(self, x, open_hours):
        return nn.functional.softplus(self.fc2(torch.tanh(self.fc1(x)))) * open_hours


x = torch.randn(80, 6)
open_hours = torch.randint(0, 9, (80, 4)).float()
count = torch.poisson(0.6 * open_hours)
seen = (open_hours > 0).float()

net = VisitRate()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(30):
    loss = poisson_nll(net(x, open_hours), count, seen)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 5 == 0:
        print(step, loss.item())
