import torch
from torch import nn

torch.manual_seed(0)
STD_NORMAL = torch.distributions.Normal(0.0, 1.0)


class LogNormalAFT(nn.Module):
    """Accelerated failure time model for pumps; some are still running at the end of the study."""

    def __init__(self, d):
        super().__init__()
        self.beta = nn.Linear(d, 1)
        self.log_sigma = nn.Parameter(torch.tensor(-0.5))

    def nll(self, x, time, failed):
        sigma = self.log_sigma.exp()
        z = (time.log() - self.beta(x).squeeze(1)) / sigma
        log_pdf = -0.5 * z ** 2 - self.log_sigma - 0.919
        log_surv = torch.special.log_ndtr(-z)
        return -torch.where(failed, log_pdf, log_surv).mean()


x = torch.randn(120, 4)
time = (5 + x[:, 0] + 0.4 * torch.randn(120)).exp()
failed = torch.rand(120) < 0.7

model = LogNormalAFT(4)
opt = torch.optim.Adam(model.parameters(), lr=0.05)
for epoch in range(20):
    opt.zero_grad()
    loss = model.nll(x, time, failed)
    loss.backward()
    opt.step()
    if epoch % 4 == 0:
        print(epoch, loss.item())
