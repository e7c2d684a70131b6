import copy

import torch
from torch import nn

torch.manual_seed(6)

q = nn.Sequential(nn.Linear(5, 48), nn.ReLU(), nn.Linear(48, 3))
target = copy.deepcopy(q)
for p in target.parameters():
    p.requires_grad_(False)
opt = torch.optim.RMSprop(q.parameters(), lr=1e-3)
buffer = []

for step in range(150):
    s = torch.randn(5)
    a = int(torch.randint(3, ())) if torch.rand(()) < 0.2 else int(q(s).argmax())
    r = float(s[a] > 0)
    s2 = 0.5 * s + 0.5 * torch.randn(5)
    buffer.append((s, a, r, s2, float(torch.rand(()) < 0.1)))
    if len(buffer) < 32:
        continue
    pick = [buffer[i] for i in torch.randint(len(buffer), (32,)).tolist()]
    S, A, R, S2, D = (torch.stack(c) if torch.is_tensor(c[0]) else torch.tensor(c) for c in zip(*pick))
    with torch.no_grad():
        goal = R + 0.95 * (1 - D) * target(S2).max(1).values
    loss = nn.functional.smooth_l1_loss(q(S).gather(1, A[:, None]).squeeze(1), goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for p, t in zip(q.parameters(), target.parameters()):
            t.mul_(0.98).add_(p, alpha=0.02)
    if step % 30 == 0:
        print(step, loss.item())
