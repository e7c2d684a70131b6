import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

image_net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16))
text_net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 16))


def contrastive(a, b, tau):
    a = F.normalize(a, dim=1)
    b = F.normalize(b, dim=1)
    sim = a @ b.t() / tau
    pos = sim.diag()
    denom = torch.log(torch.exp(sim).sum(dim=1))
    return (denom - pos).mean()


latent = torch.randn(128, 6)
images = latent @ torch.randn(6, 20)
texts = latent @ torch.randn(6, 12)

opt = torch.optim.AdamW([*image_net.parameters(), *text_net.parameters()], lr=1e-2)
for step in range(150):
    tau = max(0.01, 0.2 * 0.97 ** step)
    pick = torch.randperm(128)[:32]
    loss = contrastive(image_net(images[pick]), text_net(texts[pick]), tau)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 15 == 0:
        print(f"{step:4d} tau {tau:.3f} loss {loss.item():.4f}")
