import torch
import torch.nn as nn


class VAE(nn.Module):
    def __init__(self, d=60, h=32, z=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.ReLU())
        self.mu = nn.Linear(h, z)
        self.logvar = nn.Linear(h, z)
        self.dec = nn.Sequential(nn.Linear(z, h), nn.Tanh(), nn.Linear(h, d))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        std = torch.exp(0.5 * logvar)
        z = mu + std * torch.randn_like(mu)
        return self.dec(z), mu, logvar


def elbo(x, recon, mu, logvar, beta):
    rec = ((x - recon) ** 2).sum(1)
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1)
    return (rec + beta * kl).mean()


def make_spectra(n):
    axis = torch.linspace(0, 1, 60)
    centre = torch.rand(n, 1)
    return 900 * torch.exp(-((axis - centre) / 0.08) ** 2)


torch.manual_seed(0)
data = make_spectra(256)
vae = VAE()
optimiser = torch.optim.Adam(vae.parameters(), lr=1e-3)
for step in range(60):
    batch = data[torch.randint(0, 256, (32,))]
    recon, mu, logvar = vae(batch)
    loss = elbo(batch, recon, mu, logvar, beta=1.0)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if step % 10 == 0:
        print(step, loss.item())
