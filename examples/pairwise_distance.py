"""Pulls embeddings of the same class together. The loss is finite, the gradient is not."""

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
points = torch.randn(24, 8)
labels = torch.arange(24) % 3

for step in range(5):
    z = encoder(points)
    difference = z[:, None, :] - z[None, :, :]
    distance = difference.pow(2).sum(dim=-1).sqrt()
    same = (labels[:, None] == labels[None, :]).float()
    loss = (same * distance).mean() + ((1 - same) * (2.0 - distance).clamp(min=0)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
