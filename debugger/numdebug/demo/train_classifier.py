"""Trains a small image classifier on synthetic 8x8 pictures of four kinds of stripes. After some steps the loss turns NaN."""

import torch
from torch import nn


def make_pictures(count, seed):
    generator = torch.Generator().manual_seed(seed)
    kinds = torch.randint(0, 4, (count,), generator=generator)
    phase = 6.3 * torch.rand(count, 1, 1, generator=generator)
    row, column = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    patterns = torch.stack([row, column, row + column, row - column])
    brightness = 128 + 90 * torch.sin(1.5 * patterns[kinds] + phase) + 25 * torch.randn(count, 8, 8, generator=generator)
    return brightness.clamp(0, 255).unsqueeze(1) / 16, kinds


class StripeNet(nn.Module):
    def __init__(self, width=32, classes=4):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2), nn.ReLU(), nn.Flatten()
        )
        self.head = nn.Linear(width * 9, classes)

    def forward(self, pictures):
        return self.head(self.features(pictures))


def cross_entropy(logits, kinds):
    probabilities = torch.softmax(logits, dim=1)
    log_probabilities = torch.log(probabilities)
    return -log_probabilities.gather(1, kinds.unsqueeze(1)).mean()


def main(steps=60, batch=64):
    torch.manual_seed(0)
    pictures, kinds = make_pictures(512, seed=1)
    model = StripeNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.07, momentum=0.9)
    for step in range(steps):
        chosen = torch.randint(0, len(pictures), (batch,))
        loss = cross_entropy(model(pictures[chosen]), kinds[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
