import torch
from torch import nn

torch.manual_seed(0)


class SoftTree(nn.Module):
    """Assigns samples to leaves and predicts the mean of the rows that fall in each leaf."""

    def __init__(self, d, leaves):
        super().__init__()
        self.route = nn.Linear(d, leaves)

    def forward(self, x, y):
        member = torch.relu(self.route(x))
        mass = member.sum(dim=0)
        mean = torch.where(mass > 0, member.T @ y / mass.clamp(min=1e-6), 0.0)
        share = member / (member.sum(dim=1, keepdim=True) + 1e-6)
        return share @ mean


x = torch.randn(60, 3)
y = x[:, 0] - x[:, 1]
tree = SoftTree(3, 5)
tree.route.bias.data[2] = -12.0
opt = torch.optim.SGD(tree.parameters(), lr=0.1)
for it in range(8):
    loss = (tree(x, y) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
