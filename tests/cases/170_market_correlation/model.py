import torch

torch.manual_seed(2)

names = ["rail", "steel", "banks", "chips"]
trend = torch.linspace(0.8, 1.3, 250)[:, None]
cap = torch.tensor([2.1e12, 3.8e12, 9.5e12, 2.4e13]) * (trend + 0.02 * torch.randn(250, 4))


def correlation(x):
    d = x - x.mean(dim=0)
    cov = d.T @ d / (len(x) - 1)
    var = cov.diagonal()
    return cov / torch.sqrt(var[:, None] * var[None, :])


for name, row in zip(names, correlation(cap)):
    print(f"{name:6s}", [round(v, 3) for v in row.tolist()])
