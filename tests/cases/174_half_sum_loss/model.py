import torch
import torch.nn as nn

torch.manual_seed(7)

depth_map = 20 + 60 * torch.rand(8, 1, 24, 24)
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1)).half()
criterion = nn.MSELoss(reduction="sum")
opt = torch.optim.SGD(net.parameters(), lr=1e-7)

for step in range(5):
    noisy = (depth_map + torch.randn_like(depth_map)).half() / 80
    loss = criterion(net(noisy), depth_map.half())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
