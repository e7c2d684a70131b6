import torch
from torch import nn

torch.manual_seed(2)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 6))

    def forward(self, obs):
        return self.fc(obs).softmax(dim=-1)


def entropy(p, eps=1e-8):
    return -(p * (p + eps).log()).sum(dim=-1)


actor = Actor().half().eval()
with torch.no_grad():
    obs = (40 * torch.randn(50, 12)).half()
    h = entropy(actor(obs))
print("mean entropy", h.mean().item())
print("certain states", (h < 0.05).sum().item(), "of", len(h))
