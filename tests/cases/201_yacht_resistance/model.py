import torch
import torch.nn as nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(6, 64), nn.ReLU(),
            nn.Linear(64, 64), nn.ReLU(),
            nn.Linear(64, 64), nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, x):
        return self.layers(x)


hull = torch.randn(300, 6)
resistance = (3 * hull[:, :1] + hull[:, 1:2] ** 2) * 4
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9)
for epoch in range(40):
    loss = nn.functional.mse_loss(net(hull), resistance)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 5 == 0:
        print(epoch, loss.item())
