import torch

torch.manual_seed(0)


def euclidean(a, b):
    sq = a.square().sum(1)[:, None] + b.square().sum(1)[None, :] - 2 * a @ b.T
    return sq.sqrt()


sessions = torch.randn(12, 64).repeat_interleave(3, dim=0) * 6
sessions += 1e-4 * torch.randn_like(sessions)
d = euclidean(sessions, sessions)

near = (d < 1.0).sum(dim=1) - 1
print("near neighbours", near.tolist())
print("mean distance", d.mean().item())
