import torch
import torch.nn as nn

torch.manual_seed(7)

income = torch.randn(300, 5) * 3
default = (income.sum(1) > 0).float()
model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(model.parameters(), lr=2e-2)

for epoch in range(50):
    p = torch.softmax(model(income), dim=1).clamp(1e-7, 1.0)
    picked = p[torch.arange(300), default.long()]
    loss = -picked.log().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 10 == 0:
        print(epoch, loss.item(), p.min().item())
