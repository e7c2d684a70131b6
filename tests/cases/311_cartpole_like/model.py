import torch
from torch import nn


class Env:
    def reset(self):
        self.s = 0.05 * torch.randn(4)
        self.t = 0
        return self.s

    def step(self, a):
        push = 2.0 * a - 1.0
        self.s = self.s + 0.05 * torch.stack([self.s[1], torch.tensor(push), self.s[3], 4 * self.s[2] - push + 0.2 * torch.randn(())])
        self.t += 1
        done = self.s[2].abs() > 0.25 or self.t >= 40
        return self.s, 1.0, bool(done)


def episode(env, policy):
    s, logps, rewards, done = env.reset(), [], [], False
    while not done:
        dist = torch.distributions.Categorical(logits=policy(s))
        a = dist.sample()
        logps.append(dist.log_prob(a))
        s, r, done = env.step(a.item())
        rewards.append(r)
    return torch.stack(logps), rewards


torch.manual_seed(1)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
env, lengths = Env(), []
for ep in range(40):
    logps, rewards = episode(env, policy)
    ret = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    ret = (ret - ret.mean()) / (ret.std() + 1e-6)
    loss = -(logps * ret).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    lengths.append(len(rewards))
print("first", lengths[:5], "last", lengths[-5:])
