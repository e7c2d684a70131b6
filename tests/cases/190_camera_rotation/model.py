import torch


def hat(w):
    zero = torch.zeros_like(w[:, 0])
    return torch.stack([zero, -w[:, 2], w[:, 1], w[:, 2], zero, -w[:, 0], -w[:, 1], w[:, 0], zero], dim=1).view(-1, 3, 3)


def rodrigues(w):
    theta = w.norm(dim=1)[:, None, None]
    k = hat(w)
    small = theta < 1e-4
    a = torch.where(small, 1 - theta ** 2 / 6, torch.sin(theta) / theta)
    b = torch.where(small, 0.5 - theta ** 2 / 24, (1 - torch.cos(theta)) / theta ** 2)
    return torch.eye(3) + a * k + b * (k @ k)


def reprojection(w, points, seen):
    return ((rodrigues(w) @ points - seen) ** 2).mean()


torch.manual_seed(4)
points = torch.randn(1, 3, 20)
true = torch.tensor([[0.2, -0.1, 0.3], [0.0, 0.4, 0.1]])
seen = rodrigues(true) @ points

w = torch.zeros(2, 3, requires_grad=True)
opt = torch.optim.LBFGS([w], max_iter=10, line_search_fn="strong_wolfe")


def closure():
    opt.zero_grad()
    loss = reprojection(w, points, seen)
    loss.backward()
    return loss


for it in range(3):
    print(it, opt.step(closure).item(), w.tolist())
