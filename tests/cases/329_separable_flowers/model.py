import torch
import torch.nn as nn

torch.manual_seed(7)

petal = torch.cat([torch.randn(40, 2) + 4, torch.randn(40, 2) - 4])
label = torch.cat([torch.ones(40), -torch.ones(40)])

w = nn.Parameter(torch.zeros(2))
b = nn.Parameter(torch.zeros(()))
opt = torch.optim.SGD([w, b], lr=0.5)
for epoch in range(40):
    margin = label * (petal @ w + b)
    loss = torch.relu(1 - margin).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 8 == 0:
        print(epoch, loss.item(), w.grad.abs().sum().item())
print("mistakes", int((margin <= 0).sum()))
