import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(4)
levels = rng.normal(3.0, 0.5, (240, 5)).astype(np.float32)
levels[rng.random(levels.shape) < 0.1] = np.nan

x = torch.from_numpy(levels)
seen = ~x.isnan()
centre = x.nanmean(dim=0)
spread = ((x - centre) ** 2).nanmean(dim=0).sqrt()
z = torch.where(seen, (x - centre) / spread, 0.0)

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 5))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(20):
    drop = torch.rand_like(z) < 0.2
    pred = net(torch.cat([z.masked_fill(drop, 0.0), (seen & ~drop).float()], dim=1))
    loss = (pred - z)[seen].pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 5 == 0:
        print(epoch, loss.item())
