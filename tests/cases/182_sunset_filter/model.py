import torch


def warm_filter(img, gain):
    scaled = img.float() * torch.tensor(gain).view(3, 1, 1)
    return scaled.to(torch.uint8)


def gradient_sky(h=24, w=32):
    rows = torch.linspace(80, 250, h).view(1, h, 1)
    tint = torch.tensor([1.0, 0.75, 0.5]).view(3, 1, 1)
    return (rows * tint).expand(3, h, w).to(torch.uint8)


sky = gradient_sky()
for strength in (1.0, 1.1, 1.25, 1.4):
    out = warm_filter(sky, [strength, 1.0, 2 - strength])
    print(f"strength {strength}: red mean {out[0].float().mean():.1f}, brightest row red {out[0, -1, 0].item()}")
