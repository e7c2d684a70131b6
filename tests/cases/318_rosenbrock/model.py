import torch


def rosenbrock(p):
    return ((1 - p[:-1]) ** 2 + 100 * (p[1:] - p[:-1] ** 2) ** 2).sum()


p = torch.tensor([-1.9, 2.0], requires_grad=True)
opt = torch.optim.LBFGS([p], lr=1.0, max_iter=15, line_search_fn="strong_wolfe")


def closure():
    opt.zero_grad()
    value = rosenbrock(p)
    value.backward()
    return value


for it in range(10):
    value = opt.step(closure)
    print(it, f"{value.item():.3e}", [round(v, 4) for v in p.tolist()])
