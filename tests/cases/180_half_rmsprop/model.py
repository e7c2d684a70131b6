import torch
from torch import nn

torch.manual_seed(4)

model = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 2)).half()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
x = torch.rand(64, 9).half()
x[:, 4] = 0.0
y = (x[:, 0] > x[:, 1]).long()


def closure():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x).float(), y)
    loss.backward()
    return loss


for epoch in range(8):
    loss = optimizer.step(closure)
    print(epoch, loss.item())
