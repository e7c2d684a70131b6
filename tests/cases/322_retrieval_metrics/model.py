import torch
from torch import nn

torch.manual_seed(1)

scores = torch.randn(12, 40)
relevant = (torch.rand(12, 40) < 0.1) & (torch.arange(12) > 1)[:, None]


def average_precision(scores, relevant):
    order = scores.argsort(dim=1, descending=True)
    hit = relevant.gather(1, order).float()
    precision = hit.cumsum(1) / torch.arange(1, hit.shape[1] + 1)
    found = hit.sum(1)
    return torch.where(found > 0, (precision * hit).sum(1) / found, torch.zeros_like(found))


def mrr(scores, relevant):
    best = scores.masked_fill(~relevant, float("-inf")).amax(1, keepdim=True)
    rank = (scores > best).sum(1) + 1
    return torch.where(relevant.any(1), 1.0 / rank, 0.0)


with torch.no_grad():
    ap = average_precision(scores, relevant)
    print("MAP", ap.mean().item(), "MRR", mrr(scores, relevant).mean().item())
    print("queries without an answer", int((~relevant.any(1)).sum()))
