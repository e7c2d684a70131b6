import torch

torch.manual_seed(0)
RATE = 8000


def record(seconds, loudness):
    t = torch.arange(int(RATE * seconds)) / RATE
    wave = torch.sin(2 * torch.pi * 180 * t) + 0.3 * torch.randn(len(t))
    return (loudness * wave).clamp(-32768, 32767).to(torch.int16)


def rms(samples):
    energy = (samples * samples).sum(dim=-1)
    return torch.sqrt(energy / samples.shape[-1])


for name, loudness in {"whisper": 60, "talk": 900, "shout": 9000}.items():
    frames = record(0.5, loudness).unfold(0, 400, 400)
    level = rms(frames)
    print(f"{name:8s} rms {level.mean().item():8.1f}  loudest frame {level.max().item():8.1f}")
