import torch
import torch.nn as nn
from torch.distributions import Normal


class SquashedActor(nn.Module):
    def __init__(self, obs=4, act=2):
        super().__init__()
        self.mu = nn.Linear(obs, act)
        self.log_sigma = nn.Parameter(torch.zeros(act))

    def sample(self, obs):
        base = Normal(self.mu(obs), self.log_sigma.exp())
        u = base.rsample()
        a = torch.tanh(u)
        logp = base.log_prob(u) - torch.log(1 - a.pow(2))
        return a, logp.sum(-1)


def q_value(obs, act):
    return -(act - obs[:, :2].sign()).pow(2).sum(-1)


torch.manual_seed(2)
actor = SquashedActor()
opt = torch.optim.Adam(actor.parameters(), lr=3e-2)
alpha = 0.02
for step in range(300):
    obs = 3.0 * torch.randn(128, 4)
    act, logp = actor.sample(obs)
    loss = (alpha * logp - q_value(obs, act)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
