import torch
import torch.nn as nn

torch.manual_seed(4)


class Infiltration(nn.Module):
    """Green-Ampt like response: grows with the root of the water above the field capacity."""

    def __init__(self):
        super().__init__()
        self.capacity = nn.Parameter(torch.tensor(0.30))
        self.k = nn.Parameter(torch.tensor(1.0))

    def forward(self, theta):
        excess = theta - self.capacity
        return torch.where(excess > 0, self.k * torch.sqrt(excess), torch.zeros_like(theta))


theta = torch.rand(200) * 0.6
target = torch.where(theta > 0.25, 1.4 * (theta - 0.25).clamp(min=0).sqrt(), torch.zeros(200))
model = Infiltration()
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(20):
    opt.zero_grad()
    loss = ((model(theta) - target) ** 2).mean()
    loss.backward()
    opt.step()
print("capacity", model.capacity.item(), "k", model.k.item())
