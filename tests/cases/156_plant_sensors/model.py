import torch
from torch import nn

torch.manual_seed(0)


class Standardiser:
    def fit(self, table):
        self.mean = table.mean(dim=0)
        self.scale = table.std(dim=0)
        return self

    def __call__(self, table):
        return (table - self.mean) / self.scale


temperature = 60 + 5 * torch.randn(90)
pressure = 3 + 0.2 * torch.randn(90)
valve = torch.full((90,), 1.0)
flow = 10 + 2 * pressure - 0.1 * temperature + 0.1 * torch.randn(90)
table = torch.stack([temperature, pressure, valve], dim=1)

prepare = Standardiser().fit(table)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(10):
    loss = nn.functional.huber_loss(model(prepare(table)).squeeze(1), flow)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
