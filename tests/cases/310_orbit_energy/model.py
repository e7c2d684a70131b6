import torch
from torch import nn

torch.manual_seed(0)

speed = 7500 + 300 * torch.randn(200, 1)
height = 4e5 + 5e4 * torch.randn(200, 1)
energy = 0.5 * speed ** 2 - 3.986e14 / (6.371e6 + height)

model = nn.Linear(2, 1)
x = torch.cat([(speed - 7500) / 300, (height - 4e5) / 5e4], dim=1)
opt = torch.optim.Adam(model.parameters(), lr=5e5)
for epoch in range(80):
    loss = nn.functional.mse_loss(model(x), energy)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 10 == 0:
        print(epoch, f"loss {loss.item():.3e}")
