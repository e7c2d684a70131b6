import torch
import torch.nn as nn
import torch.nn.functional as F


class SongNet(nn.Module):
    def __init__(self, bands=40, species=7):
        super().__init__()
        self.conv = nn.Conv1d(bands, 32, 3, padding=1)
        self.fc = nn.Linear(32, species)

    def forward(self, spec):
        pooled = F.relu(self.conv(spec)).amax(dim=2)
        return F.log_softmax(self.fc(pooled), dim=1)


def labelled_only(probs, target):
    keep = target >= 0
    return probs[keep], target[keep]


def criterion(probs, target):
    probs, target = labelled_only(probs, target)
    hit = probs[range(len(target)), target]
    return torch.mean(-hit)


torch.manual_seed(8)
power = torch.rand(90, 40, 12) ** 4 * 5000
species = torch.randint(-1, 7, (90,))
net = SongNet()
opt = torch.optim.SGD(net.parameters(), lr=1e-5)
for epoch in range(5):
    for i in range(0, 90, 30):
        loss = criterion(net(power[i:i + 30]), species[i:i + 30])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"[{epoch}] {loss.item():.3f}")
