import torch
import torch.nn as nn

torch.manual_seed(1)
VOCAB, LENGTH = 20, 128


class Policy(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.head = nn.Linear(dim, VOCAB)

    def token_logp(self, seq):
        h = torch.tanh(self.embed(seq[:, :-1]))
        return self.head(h).log_softmax(-1).gather(-1, seq[:, 1:, None]).squeeze(-1)


def reward(seq):
    return (seq < 5).float().mean(dim=1)


def surrogate(logp, old_logp, adv):
    ratio = torch.exp((logp - old_logp).sum(dim=1).clamp(-20.0, 20.0))
    return -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()


policy = Policy()
opt = torch.optim.SGD(policy.parameters(), lr=0.1, momentum=0.9)
seq = torch.cat([torch.randint(0, k, (8, LENGTH + 1)) for k in (4, 8, 14, VOCAB)])
with torch.no_grad():
    old_logp = policy.token_logp(seq)
    r = reward(seq)
    adv = (r - r.mean()) / r.std()

for epoch in range(40):
    loss = surrogate(policy.token_logp(seq), old_logp, adv)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 3 == 0:
        print(epoch, loss.item())
