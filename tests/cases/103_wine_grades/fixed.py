import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)

n = 240
acid = 3 + 0.3 * torch.randn(n)
sulphur = 40 + 25 * torch.rand(n)
solids = 900 + 300 * torch.rand(n)
x = torch.stack([acid, sulphur, solids], dim=1)
grade = ((solids - 900) / 100.01).long()

model = nn.Sequential(
    nn.Linear(3, 24),
    nn.ReLU(),
    nn.Linear(24, 3),
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(6):
    running = 0.0
    for xb, yb in zip(x.split(48), grade.split(48)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
        running += loss.item()
    print("epoch", epoch, "loss", running / 5)
