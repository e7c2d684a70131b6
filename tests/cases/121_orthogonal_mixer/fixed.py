import torch
import torch.nn as nn


def nuclear_and_spread(w):
    u, s, vh = torch.linalg.svd(w)
    return s.sum(), (u[:, 0] - vh[0]).abs().mean()


class Mixer(nn.Module):
    def __init__(self, channels=6):
        super().__init__()
        self.mix = nn.Linear(channels, channels, bias=False)
        nn.init.kaiming_uniform_(self.mix.weight)

    def forward(self, x):
        return self.mix(x)


torch.manual_seed(2)
sources = torch.rand(100, 6).sub(0.5)
mixed = sources @ torch.randn(6, 6)
net = Mixer()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(3):
    total, spread = nuclear_and_spread(net.mix.weight)
    loss = nn.functional.mse_loss(net(mixed), sources) + 0.01 * total + 0.001 * spread
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), net.mix.weight.norm().item())
    if not torch.isfinite(net.mix.weight).all():
        break
