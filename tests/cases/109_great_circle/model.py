import torch

EARTH_KM = 6371.0


def to_xyz(lat, lon):
    lat, lon = torch.deg2rad(lat), torch.deg2rad(lon)
    return torch.stack([lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()], dim=-1)


def arc_km(p, q):
    dot = (p * q).sum(dim=-1)
    return EARTH_KM * torch.acos(dot)


ports = {
    "Lisbon": (38.72, -9.14), "Oslo": (59.91, 10.75), "Dakar": (14.69, -17.45), "Cadiz": (36.53, -6.29),
    "Bergen": (60.39, 5.32), "Izmir": (38.42, 27.14), "Tunis": (36.81, 10.18), "Malta": (35.90, 14.51),
    "Genoa": (44.41, 8.93), "Porto": (41.15, -8.61), "Riga": (56.95, 24.11), "Cork": (51.90, -8.47),
}
lat, lon = torch.tensor(list(ports.values())).T
xyz = to_xyz(lat, lon)
table = arc_km(xyz[:, None, :], xyz[None, :, :])

for name, row in zip(ports, table):
    print(f"{name:8s}", " ".join(f"{d:7.0f}" for d in row.tolist()))
print("mean leg", table.mean().item())
