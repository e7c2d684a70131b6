import torch

torch.manual_seed(2)


def log_likelihood(x, means, log_std, logits):
    weight = torch.softmax(logits, 0)
    z = (x[:, None] - means) / log_std.exp()
    dens = weight * torch.exp(-0.5 * z ** 2) / (log_std.exp() * 2.5066)
    return dens.sum(dim=1).log().mean()


velocity = torch.cat([9.2 + 0.4 * torch.randn(40), 20.1 + 1.1 * torch.randn(60), 33.0 + 0.6 * torch.randn(12)])
means = torch.tensor([10.0, 18.0, 22.0], requires_grad=True)
log_std = torch.full((3,), -0.5, requires_grad=True)
logits = torch.zeros(3, requires_grad=True)

opt = torch.optim.Adam([means, log_std, logits], lr=0.02)
for epoch in range(100):
    opt.zero_grad()
    loss = -log_likelihood(velocity, means, log_std, logits)
    loss.backward()
    opt.step()
    if epoch % 20 == 0:
        print(epoch, loss.item(), means.tolist())
