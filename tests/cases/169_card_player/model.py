import torch
from torch import nn

torch.manual_seed(5)


class PolicyNet(nn.Module):
    def __init__(self, cards=12):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(cards, 32), nn.ReLU(), nn.Linear(32, cards))

    def forward(self, hand):
        logits = self.net(hand)
        logits[hand == 0] = float("-inf")
        return torch.log_softmax(logits, dim=-1)


def play(policy, hands, rounds=5):
    logps, scores = [], torch.zeros(len(hands))
    for _ in range(rounds):
        logp = policy(hands)
        card = torch.where(hands > 0, logp.detach().exp(), 0.0).argmax(-1)
        logps.append(logp.gather(1, card[:, None]).squeeze(1))
        scores += card * (hands.gather(1, card[:, None]).squeeze(1) > 0)
        hands = hands.scatter(1, card[:, None], 0.0)
    return torch.stack(logps).sum(0), scores


policy = PolicyNet()
opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
for game in range(10):
    size = 6 if game < 3 else torch.randint(4, 7, (1,)).item()
    hands = torch.stack([torch.zeros(12).index_fill(0, torch.randperm(12)[:size], 1.0) for _ in range(16)])
    logp, score = play(policy, hands)
    loss = -(logp * (score - score.mean())).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(game, loss.item(), score.mean().item())
