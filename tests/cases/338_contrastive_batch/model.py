import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(15, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
        self.log_scale = nn.Parameter(torch.tensor(2.66))

    def forward(self, a, b):
        za, zb = (F.normalize(self.net(v), dim=1) for v in (a, b))
        return self.log_scale.clamp(max=4.6).exp() * za @ zb.T


model = Encoder()
x = torch.randn(64, 15)
labels = torch.arange(64)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)


def symmetric_loss(logits):
    n = torch.arange(len(logits))
    return (F.cross_entropy(logits, n) + F.cross_entropy(logits.T, n)) / 2


for step in range(25):
    views = [x + 0.2 * torch.randn_like(x) for _ in range(2)]
    loss = symmetric_loss(model(*views))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"{loss.item():.4f}", model.log_scale.item())
