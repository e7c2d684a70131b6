import torch
from torch import nn


class ScaleNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x):
        u = x.mean(-1, keepdim=True)
        s = (x - u).pow(2).mean(-1, keepdim=True)
        return self.weight * (x - u) * torch.rsqrt(s + self.eps) + self.bias


class Tower(nn.Module):
    def __init__(self, vocab=50, dim=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.norm = ScaleNorm(dim)
        self.proj = nn.Linear(dim, 8)

    def forward(self, ids):
        return self.proj(self.norm(self.emb(ids))).mean(dim=1)


torch.manual_seed(1)
model = Tower().to(torch.float16).eval()
hidden_ids = torch.randint(1, 50, (3, 10))
hidden_ids[:, 7:] = 0
with torch.no_grad():
    out = model(hidden_ids)
print(out.float().norm(dim=1).tolist())
