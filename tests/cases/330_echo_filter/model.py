import torch
from torch import nn

torch.manual_seed(8)

source = torch.randn(400)
kernel = torch.tensor([0.9, 0.4, -0.3, 0.15])
echo = nn.functional.conv1d(source[None, None], kernel[None, None]).flatten()

taps = nn.Parameter(torch.zeros(4))
opt = torch.optim.SGD([taps], lr=0.75, momentum=0.55)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.93)
for it in range(70):
    out = nn.functional.conv1d(source[None, None], taps[None, None]).flatten()
    loss = (out - echo).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if it < 6 or it % 16 == 0:
        print(it, loss.item())
print([round(t, 3) for t in taps.tolist()])
