import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self, d_in, experts=4):
        super().__init__()
        self.gate = nn.Linear(d_in, experts)
        self.experts = nn.ModuleList(nn.Linear(d_in, 1) for _ in range(experts))

    def mixing(self, x):
        g = self.gate(x)
        return g.softmax(dim=1)

    def forward(self, x):
        each = torch.cat([m(x) for m in self.experts], dim=1)
        return (self.mixing(x) * each).sum(1)


torch.manual_seed(0)
model = Mixture(5)

# engine speed (rpm), load (Nm), intake temperature, ignition angle, age in km
x = torch.tensor([
    [850.0, 20.0, 21.0, 8.0, 12.0],
    [3100.0, 140.0, 33.0, 24.0, 40.0],
    [2200.0, 95.0, 28.0, 18.0, 95.0],
    [4800.0, 210.0, 41.0, 30.0, 7.0],
])
y = torch.tensor([1.9, 7.4, 4.6, 14.2])
loss_fn = nn.MSELoss()
