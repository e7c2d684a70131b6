import torch
from torch import nn


def class_means(features, labels, ways):
    onehot = nn.functional.one_hot(labels, ways).float()
    count = onehot.sum(dim=0).clamp(min=1.0)
    return (onehot.T @ features) / count[:, None]


def episode(encoder, ways=5, shots=20):
    labels = torch.randint(0, ways, (shots,))
    support = centre[labels] + 0.5 * torch.randn(shots, 8)
    query_labels = torch.randint(0, ways, (15,))
    query = centre[query_labels] + 0.5 * torch.randn(15, 8)
    proto = class_means(encoder(support), labels, ways)
    logits = -torch.cdist(encoder(query), proto) ** 2
    return nn.functional.cross_entropy(logits, query_labels)


torch.manual_seed(2)
centre = torch.randn(5, 8)
encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
opt = torch.optim.Adam(encoder.parameters(), lr=1e-3)
for step in range(120):
    loss = episode(encoder)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
