import torch
from torch import nn


class StarGalaxyLoss(nn.Module):
    def __init__(self, weight=2.0):
        super().__init__()
        self.weight = weight

    def forward(self, score, is_star):
        per_source = self.weight * is_star * nn.functional.logsigmoid(score) + (1 - is_star) * nn.functional.logsigmoid(-score)
        return per_source.neg().mean()


torch.manual_seed(2)
model = nn.Sequential(nn.Linear(4, 20), nn.ReLU(), nn.Linear(20, 1), nn.Flatten(0))

# u-g, g-r and r-i colours, flux in counts
x = torch.tensor([
    [1.2, 0.4, 0.1, 5400.0],
    [0.9, 0.8, 0.3, 310.0],
    [2.1, 1.3, 0.7, 12800.0],
    [1.6, 0.2, 0.0, 960.0],
    [1.1, 0.6, 0.2, 45.0],
])
y = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
loss_fn = StarGalaxyLoss()
