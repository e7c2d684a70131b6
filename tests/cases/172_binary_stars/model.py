import torch

G = 6.674e-11

m1 = torch.tensor([1.99e30, 2.19e30, 4.2e30, 1.6e31])
m2 = torch.tensor([1.6e30, 1.8e30, 2.0e30, 9.0e30])
separation = torch.tensor([1.5e11, 3.4e12, 3.0e12, 6.0e10])


def reduced_mass(a, b):
    return a * b / (a + b)


def period(a, b, r):
    return 2 * torch.pi * torch.sqrt(r / (G * (a + b)) * r * r)


mu = reduced_mass(m1, m2)
days = period(m1, m2, separation) / 86400
energy = -0.5 * G * (m1 + m2) / separation * (mu / 1e30)
for k in range(4):
    print(f"pair {k}: mu {mu[k]:.3e} kg  period {days[k]:.4g} d  energy {energy[k]:.3e} x 1e30 J")
