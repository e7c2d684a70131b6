import torch

torch.manual_seed(12)

cities = 9
road = torch.rand(cities, 2) * 100
wanted = (road[:, None] - road[None, :]).pow(2).sum(-1).sqrt()

layout = torch.randn(cities, 2, requires_grad=True)


def pairwise(p):
    delta = p.unsqueeze(1) - p.unsqueeze(0)
    return (delta.pow(2).sum(dim=-1) + 1e-12).sqrt()


def stress(p):
    return (pairwise(p) - wanted).pow(2).mean()


lr = 0.5
for it in range(50):
    (grad,) = torch.autograd.grad(stress(layout), layout)
    with torch.no_grad():
        layout -= lr * grad
    if it % 10 == 0:
        print(it, stress(layout).item())
