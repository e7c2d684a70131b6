import torch
import torch.nn as nn


class Stylist(nn.Module):
    def __init__(self, channels=6):
        super().__init__()
        self.conv = nn.Conv2d(1, channels, 3, bias=False)

    def forward(self, img):
        return torch.tanh(self.conv(img))


def moments(h):
    flat = h.flatten(2)
    mean = flat.mean(dim=2)
    spread = (((flat - mean[..., None]) ** 2).mean(dim=2) + 1e-8).sqrt()
    return mean, spread


def style_loss(a, b):
    (ma, sa), (mb, sb) = moments(a), moments(b)
    return (ma - mb).pow(2).mean() + (sa - sb).pow(2).mean()


def main():
    torch.manual_seed(1)
    sketches = torch.rand(12, 1, 10, 10)
    sketches[7] = 0.0
    paintings = torch.rand(12, 1, 10, 10) ** 2
    net = Stylist()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(3):
        for i in range(0, 12, 3):
            loss = style_loss(net(sketches[i:i + 3]), net(paintings[i:i + 3]))
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(epoch, i, loss.item())


main()
