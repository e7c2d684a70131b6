import torch

stations = torch.tensor([[2.0, 3.0], [7.0, 1.0], [5.0, 8.0], [9.0, 6.0], [1.0, 9.0]])
ozone = torch.tensor([41.0, 55.0, 38.0, 60.0, 47.0])


def interpolate(points, power=2):
    d = (points[:, None, :] - stations).norm(dim=-1)
    w = 1.0 / d ** power
    w = w / w.sum(dim=1, keepdim=True)
    return w @ ozone


grid = torch.cartesian_prod(torch.arange(0.0, 10.0), torch.arange(0.0, 10.0))
field = interpolate(grid)
print("highest", field.max().item(), "at", grid[field.argmax()].tolist())
print("mean", field.mean().item())
