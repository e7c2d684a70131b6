import torch
import torch.nn as nn
from torch.distributions import Normal

torch.manual_seed(1)


class Policy(nn.Module):
    def __init__(self, obs_dim=6, act_dim=2):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh(), nn.Linear(32, act_dim))
        self.log_std = nn.Parameter(torch.full((act_dim,), -3.0))

    def dist(self, obs):
        return Normal(self.net(obs), self.log_std.exp())


def surrogate(policy, obs, act, adv, old_logp):
    logp = policy.dist(obs).log_prob(act).sum(-1)
    ratio = torch.exp(logp - old_logp)
    return -(ratio * adv).mean()


policy = Policy()
opt = torch.optim.SGD(policy.parameters(), lr=2e-2)
for it in range(6):
    obs = torch.randn(128, 6)
    with torch.no_grad():
        d = policy.dist(obs)
        act = d.sample()
        old_logp = d.log_prob(act).sum(-1)
        adv = -(act - obs[:, :2]).pow(2).sum(-1)
        adv = (adv - adv.mean()) / adv.std()
    for epoch in range(10):
        loss = surrogate(policy, obs, act, adv, old_logp)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(it, loss.item(), policy.log_std.tolist())
