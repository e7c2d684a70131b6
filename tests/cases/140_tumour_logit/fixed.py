import numpy as np
import torch

rng = np.random.default_rng(3)
radius = rng.normal(14, 3.5, 300)
texture = rng.normal(19, 4, 300)
area = np.pi * radius ** 2
malignant = (radius + 0.1 * texture + rng.normal(0, 1, 300) > 17).astype(np.float32)
X = torch.tensor(np.stack([radius, texture, area], 1), dtype=torch.float32)
t = torch.from_numpy(malignant)

w = torch.zeros(3, requires_grad=True)
b = torch.zeros(1, requires_grad=True)


def sigma(z):
    return 1 / (1 + torch.exp(-z))


def cost(z, t):
    return (torch.nn.functional.softplus(z) - t * z).mean()


for it in range(30):
    J = cost(X @ w + b, t)
    J.backward()
    with torch.no_grad():
        for p in (w, b):
            p -= 1e-3 * p.grad
            p.grad.zero_()
    if it % 5 == 0:
        print(it, J.item())
