import torch


def dtw(a, b):
    """Dynamic time warping by dynamic programming."""
    n, m = len(a), len(b)
    cost = (a[:, None] - b[None, :]).abs()
    inf = torch.full((), float("inf"))
    table = [[inf] * (m + 1) for _ in range(n + 1)]
    table[0][0] = torch.zeros(())
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            best = torch.stack([table[i - 1][j], table[i][j - 1], table[i - 1][j - 1]]).min()
            table[i][j] = cost[i - 1, j - 1] + best
    return table[n][m]


def closest(query, library):
    best, name = torch.tensor(float("inf")), None
    for key, curve in library.items():
        d = dtw(query, curve)
        if d < best:
            best, name = d, key
    return name, best.item()


torch.manual_seed(0)
t = torch.linspace(0, 6, 14)
library = {"sine": t.sin(), "ramp": t / 6, "pulse": (t > 3).float()}
query = (t * 0.9 + 0.2).sin() + 0.05 * torch.randn(14)
print(closest(query, library))

template = torch.zeros(8, requires_grad=True)
opt = torch.optim.Adam([template], lr=0.1)
for it in range(12):
    loss = dtw(template, query)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("template cost", loss.item())
