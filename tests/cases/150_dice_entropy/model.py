import torch


def entropy_bits(rolls, sides):
    counts = torch.bincount(rolls, minlength=sides).float()
    p = counts / counts.sum()
    return -(p * torch.log2(p)).sum()


torch.manual_seed(0)
fair = torch.randint(0, 6, (600,))
loaded = torch.multinomial(torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0, 6.0]), 600, replacement=True)
few = torch.tensor([2, 2, 5, 1, 0, 3, 4])

for name, rolls in {"fair": fair, "loaded": loaded, "few": few}.items():
    print(f"{name:7s} {entropy_bits(rolls, 6):.3f} bits of {torch.log2(torch.tensor(6.0)):.3f}")
