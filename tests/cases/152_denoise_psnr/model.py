import torch
from torch import nn


def psnr(img, ref):
    mse = (img - ref).pow(2).flatten(1).mean(dim=1)
    return -10.0 * torch.log10(mse)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3, padding=1, bias=False)
        nn.init.zeros_(self.conv.weight)

    def forward(self, img):
        return img + self.conv(img)


torch.manual_seed(0)
reference = torch.rand(6, 1, 12, 12)
level = torch.tensor([0.2, 0.1, 0.05, 0.02, 0.01, 0.0]).view(6, 1, 1, 1)
noisy = reference + level * torch.randn_like(reference)

net = Denoiser()
opt = torch.optim.SGD(net.parameters(), lr=1e-4)
for step in range(10):
    loss = -psnr(net(noisy), reference).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
