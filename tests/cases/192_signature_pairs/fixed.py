import torch
import torch.nn as nn

torch.manual_seed(0)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(14, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, a, b):
        diff = self.tower(a) - self.tower(b)
        return torch.sqrt(torch.sum(diff * diff, dim=1) + 1e-9)


def contrastive(d, same, margin=1.0):
    return (same * d ** 2 + (1 - same) * torch.clamp(margin - d, min=0) ** 2).mean()


strokes = torch.randn(40, 14)
writer = torch.arange(40) // 4
net = Siamese()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(30):
    i, j = torch.randint(0, 40, (2, 16))
    loss = contrastive(net(strokes[i], strokes[j]), (writer[i] == writer[j]).float())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 5 == 0:
        print(step, loss.item())
