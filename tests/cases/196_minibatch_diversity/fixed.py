import torch
import torch.nn as nn


class DiversityLayer(nn.Module):
    """Appends the average spread of the batch as an extra feature."""

    def forward(self, h):
        spread = (h.var(dim=0) + 1e-8).sqrt().mean()
        return torch.cat([h, spread.expand(len(h), 1)], dim=1)


class Discriminator(nn.Module):
    def __init__(self, d=3):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(d, 16), nn.ReLU())
        self.diversity = DiversityLayer()
        self.score = nn.Linear(17, 1)

    def forward(self, x):
        return self.score(self.diversity(self.features(x)))


def main():
    torch.manual_seed(1)
    gen, disc = nn.Linear(4, 3), Discriminator()
    g_opt = torch.optim.Adam(gen.parameters(), lr=1e-3)
    d_opt = torch.optim.Adam(disc.parameters(), lr=1e-3)
    bce = nn.BCEWithLogitsLoss()
    for step in range(12):
        real = torch.randn(16, 3) + torch.tensor([2.0, -1.0, 0.0])
        fake = gen(torch.randn(16, 4))
        d_loss = bce(disc(real), torch.ones(16, 1)) + bce(disc(fake.detach()), torch.zeros(16, 1))
        d_opt.zero_grad()
        d_loss.backward()
        d_opt.step()
        g_loss = bce(disc(fake), torch.ones(16, 1))
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        print(step, d_loss.item(), g_loss.item())


main()
