import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def multilabel_loss(p, tags):
    pos = tags * torch.log(p)
    neg = (1 - tags) * torch.log1p(-p)
    return -(pos + neg).sum(dim=1).mean()


def build(width):
    return nn.Sequential(
        nn.Linear(48, width),
        nn.ReLU(),
        nn.Linear(width, 9),
        nn.Sigmoid(),
    )


def main():
    torch.manual_seed(0)
    pixels = torch.randint(0, 256, (256, 48)).float()
    tags = (pixels[:, :9] > 170).float()
    loader = DataLoader(TensorDataset(pixels, tags), batch_size=32, shuffle=True)
    model = build(64)
    opt = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    for epoch in range(4):
        total = 0.0
        for xb, tb in loader:
            opt.zero_grad()
            loss = multilabel_loss(model(xb), tb)
            loss.backward()
            opt.step()
            total += float(loss)
        print("epoch", epoch, "loss", total / len(loader))


if __name__ == "__main__":
    main()
