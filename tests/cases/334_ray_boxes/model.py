import torch

torch.manual_seed(3)

origin = torch.zeros(6, 3)
direction = torch.tensor([[1.0, 0, 0], [0, 1.0, 0], [1.0, 1.0, 0], [0, 0, -1.0], [1.0, 2.0, 3.0], [-1.0, 0.5, 0]])
lower = torch.tensor([[2.0, -1, -1], [-1, 3, -1], [1, 1, -0.5], [4, 4, 4]])
upper = lower + 2


def slabs(origin, direction, lower, upper):
    inv = 1.0 / direction[:, None]
    t0 = (lower - origin[:, None]) * inv
    t1 = (upper - origin[:, None]) * inv
    near = torch.minimum(t0, t1).amax(dim=-1)
    far = torch.maximum(t0, t1).amin(dim=-1)
    hit = (near <= far) & (far > 0)
    return hit, torch.where(hit, near, torch.inf)


hit, distance = slabs(origin, direction, lower, upper)
first = distance.min(dim=1)
for i in range(len(direction)):
    if hit[i].any():
        print(f"ray {i} hits box {first.indices[i].item()} at {first.values[i].item():.3f}")
    else:
        print(f"ray {i} misses")
