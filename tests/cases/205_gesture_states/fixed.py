import torch
from torch import nn


class LeftRightHMM(nn.Module):
    """A gesture passes its phases in order: stay, or move on to the next one."""

    def __init__(self, states=4, symbols=5):
        super().__init__()
        self.jump = nn.Parameter(torch.zeros(states, states))
        self.emit = nn.Parameter(0.1 * torch.randn(states, symbols))
        band = torch.ones(states, states).triu().tril(1).bool()
        self.register_buffer("allowed", band)
        self.register_buffer("start", torch.tensor([0.0] + [-1e4] * (states - 1)))

    def forward(self, obs):
        log_a = self.jump.masked_fill(~self.allowed, float("-inf")).log_softmax(1)
        log_b = self.emit.log_softmax(1)
        alpha = self.start + log_b[:, obs[0]]
        for o in obs[1:]:
            alpha = log_b[:, o] + torch.logsumexp(alpha[:, None] + log_a, dim=0)
        return alpha[-1]


if __name__ == "__main__":
    torch.manual_seed(4)
    gestures = [torch.tensor([0] * a + [1] * b + [3] * c + [4] * d) for a, b, c, d in torch.randint(2, 6, (10, 4)).tolist()]
    model = LeftRightHMM()
    opt = torch.optim.Adam(model.parameters(), lr=0.1)
    for epoch in range(3):
        for g in gestures:
            loss = -model(g) / len(g)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())
