import torch
from torch import nn


def mix(ids):
    h = ids * -7046029254386353131
    h = h ^ (h >> 29)
    return h * 4354685564936845355


def bucket(ids, salt, size):
    return (mix(ids + salt) % size + size) % size


def lcg(seed, n):
    state, out = torch.tensor(seed, dtype=torch.int32), []
    for _ in range(n):
        state = state * 1664525 + 1013904223
        out.append(state.item())
    return out


class HashEmbedding(nn.Module):
    def __init__(self, buckets=64, dim=8):
        super().__init__()
        self.table = nn.Embedding(buckets, dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, ids):
        h = sum(self.table(bucket(ids, salt, self.table.num_embeddings)) for salt in (1, 2))
        return self.out(h).squeeze(-1)


torch.manual_seed(0)
users = torch.randint(0, 10 ** 12, (200,))
clicks = (users % 3 == 0).float()
print("noise seeds", lcg(12345, 4))
model = HashEmbedding()
opt = torch.optim.Adam(model.parameters(), lr=2e-2)
for epoch in range(30):
    loss = nn.functional.binary_cross_entropy_with_logits(model(users), clicks)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", loss.item())
