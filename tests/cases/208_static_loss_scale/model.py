import torch
from torch import nn

torch.manual_seed(4)

LOSS_SCALE = 2.0
METRES = 1e-4


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 64)
        self.b = nn.Linear(64, 64)
        self.c = nn.Linear(64, 1)

    def forward(self, xt):
        return METRES * self.c(torch.tanh(self.b(torch.tanh(self.a(xt)))))


xt = torch.rand(512, 2)
height = 1e-4 * torch.sin(5 * xt[:, :1] - 2 * xt[:, 1:])
model = Wave()
opt = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-15)

for step in range(50):
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(xt)
    loss = (out.float() - height).pow(2).mean()
    opt.zero_grad()
    (loss * LOSS_SCALE).backward()
    for p in model.parameters():
        p.grad.div_(LOSS_SCALE)
    opt.step()
    if step % 10 == 0:
        dead = (model.a.weight.grad == 0).float().mean().item()
        print(step, f"loss {loss.item():.3e}", f"first layer without gradient {dead:.2f}")
