import torch
from torch import nn

torch.manual_seed(2)


class PositiveHead(nn.Module):
    def __init__(self, d_in):
        super().__init__()
        self.fc = nn.Linear(d_in, 1)

    def forward(self, h):
        z = self.fc(h)
        return nn.functional.softplus(z)


model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), PositiveHead(32))
rain = torch.rand(300, 4) * 40
flow = (rain @ torch.tensor([[1.2], [0.9], [0.4], [0.3]])).relu() + 2.0

opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(60):
    for idx in torch.randperm(300).split(50):
        loss = (model(rain[idx]) - flow[idx]).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch % 10 == 0:
        print(epoch, round(loss.item(), 3))
