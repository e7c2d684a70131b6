import torch
from torch import nn


def log_spectrogram(wave, n_fft=64):
    frames = wave.unfold(-1, n_fft, n_fft // 2) * torch.hann_window(n_fft)
    power = torch.fft.rfft(frames).abs() ** 2
    return power.log()


def standardise(spec):
    return (spec - spec.mean(dim=(1, 2), keepdim=True)) / spec.std(dim=(1, 2), keepdim=True)


def record(kind, n=1024):
    t = torch.arange(n) / 1000.0
    wave = torch.sin(2 * torch.pi * (40 + 30 * kind) * t) + 0.05 * torch.randn(n)
    if torch.rand(()) < 0.2:
        wave[700:] = 0.0
    return wave


def main():
    torch.manual_seed(7)
    kinds = torch.randint(0, 3, (48,))
    waves = torch.stack([record(int(k)) for k in kinds])
    features = standardise(log_spectrogram(waves))
    net = nn.Sequential(nn.Flatten(), nn.Linear(features[0].numel(), 3))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(4):
        for idx in torch.randperm(48).split(8):
            loss = nn.functional.cross_entropy(net(features[idx]), kinds[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, loss.item())


main()
