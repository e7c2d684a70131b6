import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        h = x.float()
        ms = h.pow(2).mean(dim=-1, keepdim=True)
        return self.scale * (h * torch.rsqrt(ms + self.eps)).to(x.dtype)


class FeedForward(nn.Module):
    def __init__(self, dim=64, mult=4):
        super().__init__()
        self.norm = RMSNorm(dim)
        self.up = nn.Linear(dim, mult * dim)
        self.down = nn.Linear(mult * dim, dim)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


torch.manual_seed(0)
block = nn.Sequential(*[FeedForward() for _ in range(3)]).half().eval()
hidden = torch.randn(4, 64)
hidden[:, 7] = 2400.0 * hidden[:, 7].sign()

with torch.no_grad():
    out = block(hidden.half())
    print("rms in", hidden.pow(2).mean().sqrt().item())
    print("token means", block[0].norm(hidden.half()).abs().mean(-1).tolist())
    print("rms by feature 7", (out[:, 7].float() / hidden[:, 7]).tolist())
