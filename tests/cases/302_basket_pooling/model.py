import torch
from torch import nn


def masked_softmax(scores, keep):
    scores = scores.masked_fill(~keep, float("-inf"))
    some = keep.any(dim=-1, keepdim=True)
    scores = torch.where(some, scores, torch.zeros_like(scores))
    return torch.where(some, scores.softmax(dim=-1), 0.0)


class BasketModel(nn.Module):
    def __init__(self, items=80, dim=16):
        super().__init__()
        self.item = nn.Embedding(items, dim, padding_idx=0)
        self.score = nn.Linear(dim, 1)
        self.out = nn.Linear(dim, 1)

    def forward(self, basket):
        h = self.item(basket)
        w = masked_softmax(self.score(h).squeeze(-1), basket > 0)
        return self.out((w.unsqueeze(-1) * h).sum(1)).squeeze(-1)


torch.manual_seed(1)
basket = torch.randint(1, 80, (64, 6))
basket[torch.arange(6) >= torch.randint(0, 7, (64, 1))] = 0
spend = (basket > 0).float().sum(1) * 3.5
model = BasketModel()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(30):
    loss = nn.functional.mse_loss(model(basket), spend)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("empty baskets", int((basket == 0).all(1).sum()), "loss", loss.item())
