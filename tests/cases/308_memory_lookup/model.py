import torch
from torch import nn


def softmax(x, dim):
    top = x.max(dim=dim, keepdim=True).values.detach()
    e = torch.exp(x - top)
    return e / e.sum(dim=dim, keepdim=True)


def logsumexp(x, dim):
    top = x.max(dim=dim, keepdim=True).values.detach()
    return (top + torch.log(torch.exp(x - top).sum(dim=dim, keepdim=True))).squeeze(dim)


class Lookup(nn.Module):
    def __init__(self, slots=20, dim=8):
        super().__init__()
        self.keys = nn.Parameter(10 * torch.randn(slots, dim))
        self.values = nn.Parameter(torch.randn(slots, 1))

    def forward(self, q):
        sim = 20 * q @ self.keys.T
        return softmax(sim, 1) @ self.values, logsumexp(sim, 1)


torch.manual_seed(2)
q = torch.randn(64, 8)
target = q[:, :1].sign()
model = Lookup()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    out, energy = model(q)
    loss = (out - target).pow(2).mean() + 1e-6 * energy.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", loss.item(), "largest similarity", (20 * q @ model.keys.T).max().item())
