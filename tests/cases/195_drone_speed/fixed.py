import torch
from torch import nn

torch.manual_seed(5)


class Controller(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
        nn.init.zeros_(self.net[2].weight)
        nn.init.zeros_(self.net[2].bias)

    def forward(self, obs):
        return self.net(obs)


def speed(velocity):
    return (velocity.square().sum(-1) + 1e-8).sqrt()


def rollout(policy, start, steps=5):
    pos, vel, cost = start, torch.zeros_like(start), 0.0
    for _ in range(steps):
        vel = vel + 0.1 * policy(torch.cat([pos, vel], dim=-1))
        pos = pos + 0.1 * vel
        cost = cost + pos.square().sum(-1) + 0.1 * (speed(vel) - 1.0).square()
    return cost.mean()


policy = Controller()
start = 2 * torch.randn(32, 2)
opt = torch.optim.SGD(policy.parameters(), lr=0.05)
for it in range(5):
    loss = rollout(policy, start)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
