import torch


def joint_histogram(a, b, bins=8):
    ia = (a * bins).long().clamp(max=bins - 1)
    ib = (b * bins).long().clamp(max=bins - 1)
    flat = torch.bincount((ia * bins + ib).flatten(), minlength=bins * bins)
    return flat.view(bins, bins).double() / flat.sum()


def mutual_information(a, b):
    pxy = joint_histogram(a, b)
    px, py = pxy.sum(1, keepdim=True), pxy.sum(0, keepdim=True)
    return (pxy * (pxy / (px * py)).log()).sum()


torch.manual_seed(1)
yy, xx = torch.meshgrid(torch.linspace(0, 1, 40), torch.linspace(0, 1, 40), indexing="ij")
ct = torch.sin(9 * xx) * torch.cos(7 * yy) * 0.5 + 0.5
mr = (1 - ct) ** 2

best, best_shift = -1.0, None
for shift in range(-4, 5):
    mi = mutual_information(ct, mr.roll(shift, dims=1)).item()
    print(f"shift {shift:+d}  MI {mi:.4f}")
    if mi > best:
        best, best_shift = mi, shift
print("best shift", best_shift)
