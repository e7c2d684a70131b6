import torch
from torch import nn


def to_display(linear, gamma=2.2):
    return linear ** (1 / gamma)


class ToneNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.eye(3))
        self.offset = nn.Parameter(torch.zeros(3))

    def forward(self, rgb):
        return to_display(rgb @ self.matrix.T + self.offset)


torch.manual_seed(9)
raw = 0.05 + 0.9 * torch.rand(500, 3)
mix = torch.tensor([[1.5, -0.4, -0.1], [-0.3, 1.5, -0.2], [0.0, -0.5, 1.5]])
wanted = (raw @ mix.T).clamp(min=0.0) ** (1 / 2.2)

net = ToneNet()
opt = torch.optim.Adam(net.parameters(), lr=2e-2)
for step in range(50):
    loss = (net(raw) - wanted).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, loss.item())
