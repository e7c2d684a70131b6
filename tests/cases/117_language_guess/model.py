import torch

alphabet = "abcdefghijklmnopqrstuvwxyz "
samples = {
    "en": "the quick brown fox jumps over the lazy dog and then it runs away from the old house near the river",
    "de": "der schnelle braune fuchs springt ueber den faulen hund und dann rennt er weg von dem alten haus am fluss",
    "it": "la volpe marrone veloce salta sopra il cane pigro e poi scappa via dalla vecchia casa vicino al fiume",
}


def ids(text):
    return torch.tensor([alphabet.index(c) for c in text])


def train(text):
    counts = torch.ones(len(alphabet))
    counts.scatter_add_(0, ids(text), torch.ones(len(text)))
    return counts / counts.sum()


models = {lang: train(text) for lang, text in samples.items()}


def posterior(text):
    like = torch.stack([models[lang][ids(text)].prod() for lang in models])
    return like / like.sum()


for text in ("the house", "il cane", "the river runs away from the old dog and over the quick brown house near the lazy fox"):
    p = posterior(text)
    print({lang: round(v, 3) for lang, v in zip(models, p.tolist())}, text[:20])
