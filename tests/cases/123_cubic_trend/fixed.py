import torch

torch.manual_seed(0)

day = torch.arange(0, 30).float()
demand = 20 + 1.5 * day - 0.08 * day ** 2 + 0.002 * day ** 3 + torch.randn(30)
t = (day - 15) / 15
features = torch.stack([torch.ones(30), t, t ** 2, t ** 3], dim=1)

coef = torch.zeros(4, requires_grad=True)
rate = 5e-2

for epoch in range(200):
    residual = features @ coef - demand
    loss = (residual ** 2).mean()
    loss.backward()
    with torch.no_grad():
        coef -= rate * coef.grad
        coef.grad.zero_()
    if epoch % 20 == 0:
        print(epoch, loss.item())
