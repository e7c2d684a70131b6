import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self, d=20, z=3):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Linear(32, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, 32), nn.ReLU(), nn.Linear(32, d))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        logvar = logvar.clamp(-10, 10)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        kl = 0.5 * (mu.pow(2) + logvar.exp() - 1 - logvar).sum(1)
        return self.dec(z), kl


def main():
    torch.manual_seed(6)
    pixels = (torch.rand(256, 20) < torch.rand(256, 1)).float()
    loader = DataLoader(TensorDataset(pixels), batch_size=64, shuffle=True)
    vae = VAE()
    opt = torch.optim.Adam(vae.parameters(), lr=5e-3)
    for epoch in range(8):
        beta = min(1.0, epoch / 5)
        for (x,) in loader:
            logits, kl = vae(x)
            rec = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1)
            loss = (rec + beta * kl).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, f"rec {rec.mean().item():.2f} kl {kl.mean().item():.3f}")


if __name__ == "__main__":
    main()
