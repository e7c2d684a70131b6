import math

import torch
import torch.nn as nn

torch.manual_seed(8)

VECTORS = {
    "good": [0.9, 0.1, 0.3], "bad": [-0.8, 0.2, 0.1], "fine": [0.7, 0.0, 0.4], "awful": [-0.9, 0.3, 0.2],
    "film": [0.0, 0.8, -0.1], "plot": [0.1, 0.7, 0.0], "meh": [-0.2, math.nan, 0.5], "boring": [-0.6, 0.4, 0.3],
}
REVIEWS = [("good film", 1), ("bad plot", 0), ("fine plot good", 1), ("awful boring film", 0),
           ("fine film", 1), ("meh plot", 0), ("boring plot", 0), ("good good plot", 1)]

index = {w: i for i, w in enumerate(VECTORS)}
table = torch.tensor([VECTORS[w] for w in index])
embedding = nn.EmbeddingBag.from_pretrained(table, mode="mean", freeze=True)
head = nn.Linear(3, 1)
opt = torch.optim.SGD(head.parameters(), lr=0.5)

for epoch in range(3):
    for text, label in REVIEWS:
        ids = torch.tensor([[index[w] for w in text.split()]])
        logit = head(embedding(ids))
        loss = nn.functional.binary_cross_entropy_with_logits(logit, torch.tensor([[float(label)]]))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("epoch", epoch, "loss", loss.item())
