import torch

torch.manual_seed(7)

dictionary = torch.randn(20, 40)
dictionary /= dictionary.norm(dim=0)
truth = torch.zeros(40)
truth[[3, 11, 29]] = torch.tensor([1.5, -2.0, 0.8])
signal = dictionary @ truth

code = torch.zeros(40, requires_grad=True)
optimizer = torch.optim.Adam([code], lr=0.02)
for it in range(100):
    penalty = code.abs().pow(0.5).sum()
    loss = 0.5 * (dictionary @ code - signal).pow(2).sum() + 0.02 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if it % 20 == 0:
        print(it, loss.item(), (code.abs() > 0.1).sum().item())
