import torch
import torch.nn as nn

torch.manual_seed(3)

gen = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
disc = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(32, 1))
g_opt = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.999))
d_opt = torch.optim.Adam(disc.parameters(), lr=1e-3, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)

for it in range(100):
    real = torch.randn(64, 2) * torch.tensor([1.0, 0.3]) + torch.tensor([2.0, -1.0])
    fake = gen(torch.randn(64, 4))

    for p in disc.parameters():
        p.requires_grad_(True)
    d_loss = bce(disc(real), ones) + bce(disc(fake.detach()), zeros)
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()

    for p in disc.parameters():
        p.requires_grad_(False)
    g_loss = bce(disc(fake), ones)
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    if it % 25 == 0:
        print(it, d_loss.item(), g_loss.item())
