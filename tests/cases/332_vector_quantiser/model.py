import torch
from torch import nn
import torch.nn.functional as F


class Quantiser(nn.Module):
    def __init__(self, codes=16, dim=4):
        super().__init__()
        self.book = nn.Parameter(torch.randn(codes, dim))

    def forward(self, z):
        idx = torch.cdist(z, self.book).argmin(dim=1)
        e = self.book[idx]
        loss = F.mse_loss(e, z.detach()) + 0.25 * F.mse_loss(z, e.detach())
        return z + (e - z).detach(), loss, idx


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 4))
        self.vq = Quantiser()
        self.dec = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 12))

    def forward(self, x):
        q, loss, idx = self.vq(self.enc(x))
        return self.dec(q), loss, idx


torch.manual_seed(1)
x = torch.randn(8, 12)[torch.randint(0, 8, (200,))] + 0.1 * torch.randn(200, 12)
model = VQVAE()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(40):
    out, vq_loss, idx = model(x)
    loss = F.mse_loss(out, x) + vq_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", loss.item(), "codes in use", idx.unique().numel())
