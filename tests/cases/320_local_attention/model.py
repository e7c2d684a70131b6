import torch
from torch import nn


class LocalAttention(nn.Module):
    def __init__(self, dim=24, window=3):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.window = window

    def forward(self, x, lengths):
        n = x.shape[1]
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        score = q @ k.mT / q.shape[-1] ** 0.5
        pos = torch.arange(n)
        near = (pos[:, None] - pos).abs() <= self.window
        valid = (pos < lengths[:, None]).unsqueeze(1)
        score = score.masked_fill(~(near & valid), torch.finfo(score.dtype).min)
        return score.softmax(-1) @ v


torch.manual_seed(5)
layer, head = LocalAttention(), nn.Linear(24, 2)
opt = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=3e-3)
for step in range(10):
    x = torch.randn(6, 14, 24)
    lengths = torch.tensor([14, 9, 5, 1, 14, 2])
    target = (x[:, 0, 0] > 0).long()
    loss = nn.functional.cross_entropy(head(layer(x, lengths)[:, 0]), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
