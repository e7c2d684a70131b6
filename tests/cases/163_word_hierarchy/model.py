import torch
from torch import nn

torch.manual_seed(3)


class PoincareEmbedding(nn.Module):
    def __init__(self, n, dim=2):
        super().__init__()
        self.points = nn.Embedding(n, dim)
        nn.init.uniform_(self.points.weight, -0.05, 0.05)

    def depth(self, idx):
        return 2 * torch.atanh(self.points(idx).norm(dim=-1))

    def forward(self, parent, child):
        gap = (self.points(parent) - self.points(child)).pow(2).sum(-1)
        return gap + torch.relu(1.0 + self.depth(parent) - self.depth(child))


parents = torch.arange(1, 40) // 2
children = torch.arange(1, 40)
model = PoincareEmbedding(40)
opt = torch.optim.SGD(model.parameters(), lr=0.03)
for epoch in range(60):
    loss = model(parents, children).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 10 == 0:
        print(epoch, loss.item())
