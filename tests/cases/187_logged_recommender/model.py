import torch
from torch import nn


def top_k_logits(scores, k):
    floor = scores.topk(k, dim=-1).values[..., -1:]
    return torch.where(scores < floor, torch.full_like(scores, float("-inf")), scores)


class Recommender(nn.Module):
    def __init__(self, d=10, items=30, k=12):
        super().__init__()
        self.tower = nn.Linear(d, items)
        self.k = k

    def log_prob(self, user, item):
        logp = top_k_logits(self.tower(user), self.k).log_softmax(dim=-1)
        return logp.gather(-1, item[:, None]).squeeze(-1)


def main():
    torch.manual_seed(3)
    users = torch.randn(200, 10)
    clicked = (users @ torch.randn(10, 30)).argmax(dim=1)
    model = Recommender()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(15):
        loss = -model.log_prob(users, clicked).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
