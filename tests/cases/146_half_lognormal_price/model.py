import torch
from torch import nn

torch.manual_seed(0)


class PriceHead(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))
        nn.init.constant_(self.body[2].bias, 10.6)

    def forward(self, x):
        log_price = self.body(x)
        return log_price.exp()


model = PriceHead().half().eval()
flats = (2.0 * torch.randn(64, 24)).half()
with torch.inference_mode():
    price = model(flats).squeeze(1)
    print("cheapest", price.min().item(), "dearest", price.max().item())
    print("mean", price.float().mean().item())
