import torch
from torch import nn


class TrafficNet(nn.Module):
    def __init__(self, sensors=16):
        super().__init__()
        self.encode = nn.Linear(sensors, 64)
        self.decode = nn.Linear(64, sensors)

    def forward(self, vehicles):
        return self.decode(torch.relu(self.encode(vehicles)))


def main():
    torch.manual_seed(4)
    vehicles = torch.poisson(torch.full((64, 16), 90000.0))
    net = TrafficNet()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(4):
        with torch.autocast("cpu", dtype=torch.float16):
            pred = net(vehicles)
        loss = nn.functional.l1_loss(pred.float(), vehicles) / 1e5
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
