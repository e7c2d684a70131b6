import torch


def butterworth(freq, cutoff, order):
    s = torch.complex(torch.zeros_like(freq), 2 * torch.pi * freq)
    wc = 2 * torch.pi * cutoff
    poles = [wc * torch.exp(torch.tensor(1j * torch.pi * (2 * k + order + 1) / (2 * order))) for k in range(order)]
    den = torch.ones_like(s)
    for p in poles:
        den = den * (s - p)
    return wc ** order, den


def gain_db(num, den):
    magnitude = torch.sqrt(den.real ** 2 + den.imag ** 2)
    return 20 * torch.log10(num / magnitude)


freq = torch.logspace(2, 6, 9)
num, den = butterworth(freq, 1e3, 4)
for f, g in zip(freq.tolist(), gain_db(num, den).tolist()):
    print(f"{f:10.0f} Hz {g:8.2f} dB")
