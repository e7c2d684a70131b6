import torch
import torch.nn as nn


class WeberFechner(nn.Module):
    """Perceived loudness is logarithmic above the threshold, zero below."""

    def __init__(self, channels):
        super().__init__()
        self.threshold = nn.Parameter(torch.full((channels,), 0.2))
        self.gain = nn.Parameter(torch.ones(channels))

    def forward(self, intensity):
        ratio = intensity / self.threshold
        return torch.where(ratio > 1, self.gain * ratio.log(), 0.0)


torch.manual_seed(1)
intensity = torch.relu(torch.randn(64, 4))
rating = torch.where(intensity > 0.3, (intensity.clamp(min=0.3) / 0.3).log(), 0.0).sum(dim=1)

model = WeberFechner(4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(6):
    loss = nn.functional.mse_loss(model(intensity).sum(dim=1), rating)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item(), model.gain.tolist())
