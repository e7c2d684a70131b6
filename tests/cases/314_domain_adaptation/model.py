import torch
from torch import nn


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


class DANN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
        self.label = nn.Linear(32, 2)
        self.domain = nn.Linear(32, 2)

    def forward(self, x, strength):
        h = self.features(x)
        return self.label(h), self.domain(Reverse.apply(h, strength))


torch.manual_seed(0)
source, target = torch.randn(100, 10), torch.randn(100, 10) + 0.5
labels = (source[:, 0] > 0).long()
domains = torch.cat([torch.zeros(100), torch.ones(100)]).long()
model = DANN()
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
ce = nn.CrossEntropyLoss()
for epoch in range(30):
    strength = 2 / (1 + 2.718 ** (-10 * epoch / 30)) - 1
    y, d = model(torch.cat([source, target]), strength)
    loss = ce(y[:100], labels) + ce(d, domains)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("final", loss.item())
