import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(5)


class Selector(nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(3, d))
        self.out = nn.Linear(3, 1)

    def forward(self, x, tau):
        if self.training:
            pick = F.gumbel_softmax(self.logits.expand(len(x), -1, -1), tau=tau, hard=True)
        else:
            pick = F.one_hot(self.logits.argmax(1), x.shape[1]).float().expand(len(x), -1, -1)
        return self.out((pick @ x.unsqueeze(-1)).squeeze(-1)).squeeze(-1)


x = torch.randn(256, 12)
y = 2 * x[:, 1] - x[:, 5] + 0.5 * x[:, 9]
model = Selector()
opt = torch.optim.Adam(model.parameters(), lr=5e-2)
for step in range(80):
    tau = max(0.02, 2.0 * 0.93 ** step)
    loss = F.mse_loss(model(x, tau), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, round(tau, 3), loss.item())
model.eval()
print("eval", F.mse_loss(model(x, 0.1), y).item())
