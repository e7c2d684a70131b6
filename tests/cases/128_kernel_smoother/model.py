import torch

torch.manual_seed(1)

hours = torch.cat([torch.rand(30) * 9, 15 + torch.rand(30) * 9])
load = 50 + 20 * torch.sin(hours / 24 * 6.28) + torch.randn(60)


def smooth(t, bandwidth):
    k = torch.exp(-0.5 * ((t[:, None] - hours) / bandwidth) ** 2)
    return (k @ load) / k.sum(dim=1)


log_h = torch.tensor(0.0, requires_grad=True)
grid = torch.linspace(0, 24, 49)
trace = []
for it in range(60):
    est = smooth(hours, log_h.exp())
    leave = (est - load).pow(2).mean()
    (g,) = torch.autograd.grad(leave, log_h)
    with torch.no_grad():
        log_h -= 0.05 * g.clamp(-1, 1)
    trace.append(leave.item())

curve = smooth(grid, log_h.exp().detach())
print("bandwidth", log_h.exp().item(), "error", trace[-1])
print("peak", curve.max().item(), "at", grid[curve.argmax()].item())
