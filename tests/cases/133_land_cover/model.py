import torch
from torch import nn


def stable_softmax(scores):
    shifted = scores - scores.max(dim=1, keepdim=True).values
    e = shifted.exp()
    return e / e.sum(dim=1, keepdim=True)


def pixel_loss(scores, truth, classes):
    onehot = nn.functional.one_hot(truth, classes).permute(0, 3, 1, 2)
    prob = stable_softmax(scores)
    return -(onehot * prob.log()).sum(1).mean()


class Segmenter(nn.Module):
    def __init__(self, bands=4, classes=5):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(bands, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, classes, 1))

    def forward(self, tile):
        return self.net(tile)


def train_step(model, opt, tile, truth):
    opt.zero_grad(set_to_none=True)
    loss = pixel_loss(model(tile), truth, 5)
    loss.backward()
    opt.step()
    return loss.detach()


if __name__ == "__main__":
    torch.manual_seed(1)
    reflectance = torch.randint(0, 4096, (4, 4, 16, 16)).float()
    truth = (reflectance[:, 0] // 820).long()
    model = Segmenter()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(8):
        print(step, float(train_step(model, opt, reflectance, truth)))
