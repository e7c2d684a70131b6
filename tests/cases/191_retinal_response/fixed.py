import torch
from torch import nn

torch.manual_seed(2)


def safe_power(x, p):
    return torch.where(x > 0, x.clamp(min=1e-6) ** p, torch.zeros_like(x))


class NakaRushton(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Parameter(torch.tensor(1.8))
        self.c50 = nn.Parameter(torch.tensor(0.4))
        self.r_max = nn.Parameter(torch.tensor(20.0))

    def forward(self, contrast):
        drive = safe_power(contrast, self.n)
        return self.r_max * drive / (drive + safe_power(self.c50, self.n))


contrast = torch.tensor([0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0]) - 0.02
spikes = torch.tensor([0.0, 0.4, 1.9, 6.5, 15.8, 21.0, 23.9, 25.5])
cell = NakaRushton()
opt = torch.optim.Adam(cell.parameters(), lr=0.05)
for it in range(20):
    opt.zero_grad()
    loss = (cell(contrast) - spikes).pow(2).mean()
    loss.backward()
    opt.step()
print("n", cell.n.item(), "c50", cell.c50.item(), "loss", loss.item())
