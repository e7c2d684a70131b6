import torch

TEXT = "the ship sails at dawn and the crew sings on the deck while the wind turns north and the gulls follow "
CHARS = sorted(set(TEXT))
ids = torch.tensor([CHARS.index(c) for c in TEXT])


def fit_bigram(ids, n, temperature):
    counts = torch.zeros(n, n)
    for a, b in zip(ids[:-1], ids[1:]):
        counts[a, b] += 1.0
    return counts / temperature


def bits(scores, ids):
    probs = scores[ids[:-1]].softmax(dim=1)
    step = probs[torch.arange(len(ids) - 1), ids[1:]]
    nll = -step.log().mean()
    return nll.item() / 0.6931


train, held_out = ids[:70], ids[70:]
for temperature in (1.0, 0.5, 0.1, 0.02):
    scores = fit_bigram(train, len(CHARS), temperature)
    print(f"T={temperature}: train {bits(scores, train):.2f} held-out {bits(scores, held_out):.2f}")
