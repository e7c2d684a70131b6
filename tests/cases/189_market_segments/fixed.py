import torch
from torch import nn

torch.manual_seed(0)

SEGMENTS = 6


def segment_mean(h, segment):
    member = nn.functional.one_hot(segment, SEGMENTS).float()
    size = member.sum(dim=0).unsqueeze(1)
    return torch.where(size > 0, (member.T @ h) / size.clamp(min=1.0), 0.0)


class SegmentModel(nn.Module):
    def __init__(self, d=5, k=8):
        super().__init__()
        self.enc = nn.Linear(d, k)
        self.out = nn.Linear(2 * k, 1)

    def forward(self, x, segment):
        h = torch.tanh(self.enc(x))
        context = segment_mean(h, segment)[segment]
        return self.out(torch.cat([h, context], dim=1)).squeeze(1)


x = torch.randn(60, 5)
segment = torch.randint(0, SEGMENTS, (60,))
segment[segment == 4] = 1
y = x[:, 0] - x[:, 1] + 0.3 * segment
model = SegmentModel()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for it in range(8):
    loss = (model(x, segment) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
