import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        gen = torch.Generator().manual_seed(self.seed + i)
        kind = i % 3
        t = torch.linspace(0, 6.28, 32)
        return torch.sin((kind + 1) * t) + 0.2 * torch.randn(32, generator=gen), kind


def main():
    torch.manual_seed(0)
    loader = DataLoader(Waves(96, 0), batch_size=24, shuffle=True, num_workers=1)
    net = nn.Sequential(nn.Linear(32, 16), nn.GroupNorm(2, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 3))
    opt = torch.optim.Adagrad(net.parameters(), lr=0.05)
    for epoch in range(2):
        for wave, kind in loader:
            loss = nn.functional.cross_entropy(net(wave), kind, label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
