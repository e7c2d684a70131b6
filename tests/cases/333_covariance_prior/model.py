import torch

torch.manual_seed(2)

sample = torch.randn(300, 4) @ torch.diag(torch.tensor([2.0, 1.0, 1.0, 0.5]))
S = sample.T @ sample / 300

L = torch.eye(4, requires_grad=True)
opt = torch.optim.Adam([L], lr=0.05)
for it in range(60):
    P = L @ L.T + 1e-4 * torch.eye(4)
    eig = torch.linalg.eigvalsh(P)
    nll = (P * S).sum() - eig.log().sum()
    shrink = 0.01 * (eig - eig.mean()).square().sum()
    loss = nll + shrink
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 15 == 0:
        print(it, loss.item(), [round(v, 3) for v in eig.tolist()])
