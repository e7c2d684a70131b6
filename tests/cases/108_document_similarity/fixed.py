import torch
import torch.nn as nn

docs = [
    "solar panel output falls in winter",
    "winter storm hits the northern coast",
    "the panel agreed on the new coast plan",
    "a of the in",
    "new storm plan for the coast",
]
labels = torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0])
STOP = {"a", "of", "the", "in", "on", "for"}
vocab = sorted({w for d in docs for w in d.split()} - STOP)

counts = torch.zeros(len(docs), len(vocab))
for i, d in enumerate(docs):
    for w in d.split():
        if w in vocab:
            counts[i, vocab.index(w)] += 1


def cosine(a, b):
    return nn.functional.cosine_similarity(a, b, dim=-1)


torch.manual_seed(0)
embed = nn.Linear(len(vocab), 8, bias=False)
topic = nn.Parameter(torch.randn(8))
opt = torch.optim.SGD(list(embed.parameters()) + [topic], lr=0.5)
for step in range(10):
    score = cosine(embed(counts), topic.expand(len(docs), -1))
    loss = nn.functional.binary_cross_entropy_with_logits(4 * score, labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
