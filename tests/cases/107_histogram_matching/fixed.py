import torch


def soft_histogram(x, centres, width):
    w = torch.relu(1 - (x[:, None] - centres[None, :]).abs() / width)
    h = w.sum(0)
    return h / h.sum()


def kl(p, q):
    p, q = p + 1e-4, q + 1e-4
    return (p * (p.log() - q.log())).sum()


torch.manual_seed(3)
reference = torch.randn(500) * 0.7 + 0.2
photo = torch.randn(500) * 0.4 - 0.3
centres = torch.linspace(-3, 3, 31)

gain = torch.ones((), requires_grad=True)
bias = torch.zeros((), requires_grad=True)
target = soft_histogram(reference, centres, 0.2)

optimizer = torch.optim.Adam([gain, bias], lr=0.02)
for it in range(25):
    current = soft_histogram(gain * photo + bias, centres, 0.2)
    loss = kl(current, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(it, float(loss))
