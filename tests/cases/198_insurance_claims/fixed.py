import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(1)
age = rng.integers(18, 80, 600)
km = rng.gamma(3, 4, 600)
claim = np.round(rng.gamma(1.2, 400, 600) * (rng.random(600) > 0.004), 2)

features = np.column_stack([age / 80, km / 30]).astype(np.float32)
with np.errstate(divide="ignore"):
    log_claim = np.log1p(claim).astype(np.float32)

x, y = torch.from_numpy(features), torch.from_numpy(log_claim)

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    losses = []
    for idx in torch.randperm(600).split(40):
        loss = (model(x[idx]).squeeze(1) - y[idx]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(epoch, np.mean(losses))
