import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(2)

features = torch.randn(60, 16)
features[10] = 0.0
anchor = torch.randint(0, 60, (3, 200))


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 8, bias=False)

    def forward(self, x):
        return F.normalize(self.fc(x), dim=-1)


net = Projector()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(25):
    z = net(features)
    a, p, n = z[anchor]
    pos = F.pairwise_distance(a, p)
    neg = 1 - F.cosine_similarity(a, n)
    loss = F.relu(pos - neg + 0.2).mean() + 1e-3 * z.norm(dim=1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", loss.item(), "zero row", net(features)[10].abs().sum().item())
