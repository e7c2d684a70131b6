import torch

torch.manual_seed(6)

EPS = 1e-4


def unit(v):
    return v / (v.norm(dim=-1, keepdim=True) + EPS)


catalogue = torch.randn(40, 24)
catalogue[[5, 17]] = 0.0
query = torch.randn(3, 24)

catalogue, query = catalogue.half(), query.half()
score = unit(query) @ unit(catalogue).T
best = score.argmax(dim=1)

print("best match per query", best.tolist())
print("scores", score.max(dim=1).values.tolist())
