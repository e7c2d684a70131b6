import torch
import torch.nn as nn


class DiffusionTensor(nn.Module):
    def __init__(self, voxels):
        super().__init__()
        self.lower = nn.Parameter(torch.eye(3).repeat(voxels, 1, 1))

    def forward(self):
        return self.lower @ self.lower.transpose(1, 2)


def main_direction(tensors):
    values, vectors = torch.linalg.eigh(tensors)
    return vectors[:, :, -1]


def main():
    torch.manual_seed(0)
    axes = nn.functional.normalize(torch.randn(40, 3), dim=1)
    model = DiffusionTensor(40)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for it in range(20):
        tensors = model()
        align = (main_direction(tensors) * axes).sum(dim=1).square()
        loss = (1 - align).mean() + 1e-3 * tensors.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(it, loss.item())
        if not torch.isfinite(model.lower).all():
            print("stopped at", it, "parameters", model.lower.sum().item())
            break


if __name__ == "__main__":
    main()
