import math

import torch
from torch import nn


def ring(n):
    angle = torch.rand(n) * 2 * math.pi
    radius = 60.0 + 0.5 * torch.randn(n)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def forward(self, p):
        return self.layers(p)


torch.manual_seed(7)
generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
critic = Critic()
g_opt = torch.optim.Adam(generator.parameters(), lr=1e-2)
d_opt = torch.optim.Adam(critic.parameters(), lr=1e-2)

for step in range(120):
    real, fake = ring(64), generator(torch.randn(64, 8))
    d_loss = -(nn.functional.logsigmoid(critic(real)) + nn.functional.logsigmoid(-critic(fake.detach()))).mean()
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()

    g_loss = -nn.functional.logsigmoid(critic(generator(torch.randn(64, 8)))).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    if step % 20 == 0:
        print(f"{step} d {d_loss.item():.4f} g {g_loss.item():.4f}")
