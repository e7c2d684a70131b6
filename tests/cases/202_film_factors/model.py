import torch

torch.manual_seed(1)

users, films, rank = 50, 40, 8
true = torch.randn(users, 3) @ torch.randn(3, films)
seen = torch.rand(users, films) < 0.6

P = torch.randn(users, rank)
Q = torch.randn(films, rank)


def squared_error(P, Q):
    return ((P @ Q.T - true)[seen] ** 2).sum()


eta = 0.02
history = []
for sweep in range(60):
    P.requires_grad_()
    Q.requires_grad_()
    err = squared_error(P, Q)
    gp, gq = torch.autograd.grad(err, (P, Q))
    P = (P - eta * gp).detach()
    Q = (Q - eta * gq).detach()
    history.append(err.item())
print("first", history[0], "last", history[-1])
