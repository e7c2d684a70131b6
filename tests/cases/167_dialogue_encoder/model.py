import math

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x, mask):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / math.sqrt(x.shape[-1])
        bias = (1.0 - mask[:, None, :]) * float("-inf")
        return torch.softmax(scores + bias, dim=-1) @ self.v(x)


class Encoder(nn.Module):
    def __init__(self, vocab=30, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.att = SelfAttention(dim)
        self.out = nn.Linear(dim, 2)

    def forward(self, tokens):
        mask = tokens.ne(0).float()
        h = self.att(self.emb(tokens), mask) * mask.unsqueeze(-1)
        return self.out(h.sum(1) / mask.sum(1, keepdim=True))


if __name__ == "__main__":
    torch.manual_seed(0)
    tokens = torch.randint(1, 30, (12, 9))
    tokens[:6, 6:] = 0
    intent = tokens[:, 0] % 2
    enc = Encoder()
    opt = torch.optim.Adam(enc.parameters(), lr=1e-2)
    for step in range(6):
        loss = nn.functional.cross_entropy(enc(tokens), intent)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())
