import torch

torch.manual_seed(5)

pressure = 90 * torch.randn(150, 6)
genuine = (pressure @ torch.tensor([1.0, -2.0, 0.5, 0.0, 1.5, -1.0]) > 0).float() * 2 - 1
genuine[:4] *= -1

w = torch.zeros(6, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
losses = []
for epoch in range(12):
    for x, y in zip(pressure.split(25), genuine.split(25)):
        margin = y * (x @ w)
        loss = (1 + (-margin).exp()).log().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
print("first", losses[:3], "last", losses[-1])
