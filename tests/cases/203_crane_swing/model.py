import torch
from torch import nn

torch.manual_seed(2)


def simulate(n):
    state = torch.randn(n, 4)
    swing = torch.sin(state[:, :1]) * 3 + state[:, 2:3] * state[:, 3:]
    return state, swing


x, y = simulate(512)
model = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
epochs, per_epoch = 12, 8
scheduler = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=5.0, total_steps=epochs * per_epoch,
)

for epoch in range(epochs):
    total = 0.0
    for idx in torch.randperm(512).chunk(per_epoch):
        loss = (model(x[idx]) - y[idx]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item()
    print(epoch, total / per_epoch, scheduler.get_last_lr()[0])
