import torch

G = 6.674e-11
M_SUN = 1.989e30


def radius(pos):
    return torch.hypot(pos[..., 0], pos[..., 1])


def orbital_speed(pos):
    return (G * M_SUN / radius(pos)) ** 0.5


bodies = ["mercury", "earth", "jupiter", "neptune", "sedna", "oort"]
distance = torch.tensor([5.79e10, 1.496e11, 7.785e11, 4.495e12, 1.3e14, 3.0e19])
angle = torch.linspace(0.3, 5.9, len(bodies))
pos = torch.stack([distance * angle.cos(), distance * angle.sin()], dim=-1)

for name, r, v in zip(bodies, radius(pos), orbital_speed(pos)):
    print(f"{name:8s} r = {r:.4e} m   v = {v:.4e} m/s")
