import torch
import torch.nn as nn


def rescale(frame):
    lo, hi = frame.aminmax()
    return (frame - lo) / (hi - lo).clamp(min=1e-6)


class FrameNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 5, stride=3)
        self.fc = nn.Linear(6 * 36, 2)

    def forward(self, frame):
        h = torch.relu(self.conv(rescale(frame)[None, None]))
        return self.fc(h.flatten(1))


def stream(n):
    for t in range(n):
        frame = 20.0 + torch.randn(20, 20)
        if t == 7:
            frame = torch.full((20, 20), 20.0)
        hot = t % 2
        frame[4:8, 4:8] += 8.0 * hot * (t != 7)
        yield frame, torch.tensor([hot])


if __name__ == "__main__":
    torch.manual_seed(0)
    net = FrameNet()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    for t, (frame, hot) in enumerate(stream(14)):
        loss = nn.functional.cross_entropy(net(frame), hot)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(t, round(loss.item(), 4))
