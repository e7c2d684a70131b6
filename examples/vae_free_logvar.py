"""A small variational autoencoder on sensor readings in raw units."""

import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self, width=16, latent=3):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, width), nn.ReLU(), nn.Linear(width, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, 12))

    def forward(self, x):
        mean, logvar = self.encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        kl = -0.5 * (1 + logvar - mean.pow(2) - torch.exp(logvar)).sum(dim=1)
        return self.decoder(z), kl


if __name__ == "__main__":
    torch.manual_seed(0)
    readings = 4e4 + 9e4 * torch.rand(256, 12)  # Pa, not normalised
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(20):
        batch = readings[torch.randint(0, 256, (32,))]
        reconstruction, kl = model(batch)
        loss = (reconstruction - batch).pow(2).sum(dim=1).mean() + kl.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
