import torch
from torch import nn

torch.manual_seed(1)

hour = torch.randint(0, 24, (365, 1)).float()
temp = 12 + 9 * torch.randn(365, 1)
pressure = 1013 + 8 * torch.randn(365, 1)
count = torch.poisson((2.0 + 0.05 * temp - 0.01 * (pressure - 1013)).exp())

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=1e-2)
x = torch.cat((hour, temp, pressure), 1)
for epoch in range(15):
    eta = model(x)
    rate = torch.exp(eta)
    nll = (rate - count * eta).mean()
    opt.zero_grad()
    nll.backward()
    opt.step()
    print(epoch, nll.item())
