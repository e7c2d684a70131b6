import torch
from torch import nn

torch.manual_seed(6)


class HazardModel(nn.Module):
    def __init__(self, d, months):
        super().__init__()
        self.linear = nn.Linear(d, months)

    def forward(self, x):
        log_stay = nn.functional.logsigmoid(-self.linear(x))
        return torch.cumsum(log_stay, dim=1)


def loss_fn(survival, month):
    s = survival.gather(1, month[:, None])
    return -s.mean()


x = torch.randn(50, 7)
month = torch.randint(100, 240, (50,))
model = HazardModel(7, 240)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(8):
    optimizer.zero_grad()
    loss = loss_fn(model(x), month)
    loss.backward()
    optimizer.step()
    print("epoch", epoch, "loss", loss.item())
