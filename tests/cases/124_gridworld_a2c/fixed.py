import torch
from torch import nn


class ActorCritic(nn.Module):
    def __init__(self, obs=8, actions=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 64), nn.Tanh())
        self.pi = nn.Linear(64, actions)
        self.v = nn.Linear(64, 1)

    def forward(self, s):
        h = self.body(s)
        return nn.functional.log_softmax(self.pi(h), dim=-1), self.v(h).squeeze(-1)


def a2c_loss(logp, value, action, ret):
    adv = ret - value
    chosen = logp.gather(1, action[:, None]).squeeze(1)
    entropy = -(logp.exp() * logp).sum(dim=1)
    return (-chosen * adv.detach() + 0.5 * adv ** 2 - 0.01 * entropy).mean()


def rollout(net, n=64):
    s = torch.randn(n, 8)
    with torch.no_grad():
        logp, _ = net(s)
    a = torch.multinomial(logp.exp(), 1).squeeze(1)
    reward = 100.0 * (a == (s[:, 0] > 0).long()).float()
    return s, a, reward


torch.manual_seed(3)
agent = ActorCritic()
opt = torch.optim.RMSprop(agent.parameters(), lr=0.1)
for update in range(120):
    s, a, ret = rollout(agent)
    logp, value = agent(s)
    loss = a2c_loss(logp, value, a, ret)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if update % 20 == 0:
        print(update, f"loss {loss.item():.3f} reward {ret.mean().item():.1f}")
