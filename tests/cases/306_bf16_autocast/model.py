import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        return x + self.ff(self.norm(x))


if __name__ == "__main__":
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(12, 32), Block(32), Block(32), nn.Linear(32, 4))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    x = torch.randn(200, 12)
    y = x[:, :4].argmax(dim=1)
    for epoch in range(25):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(x)
        loss = nn.functional.cross_entropy(logits.float(), y)
        loss.backward()
        opt.step()
        if epoch % 6 == 0:
            print(epoch, f"{loss.item():.4f}")
