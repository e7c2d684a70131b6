import torch
from torch import nn

torch.manual_seed(4)


class BPR(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.u = nn.Embedding(users, dim)
        self.i = nn.Embedding(items, dim)
        nn.init.normal_(self.u.weight, std=2.0)
        nn.init.normal_(self.i.weight, std=2.0)

    def score(self, user, item):
        return (self.u(user) * self.i(item)).sum(-1)

    def forward(self, user, liked, other):
        margin = self.score(user, liked) - self.score(user, other)
        return -margin.sigmoid().log().mean()


likes = torch.randint(0, 200, (3000, 2)) % torch.tensor([60, 200])
model = BPR(60, 200, 64)
opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
for epoch in range(3):
    for batch in likes[torch.randperm(len(likes))].split(500):
        negatives = torch.randint(0, 200, (len(batch),))
        loss = model(batch[:, 0], batch[:, 1], negatives)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
