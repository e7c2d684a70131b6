import torch
from torch import nn


class HMM(nn.Module):
    def __init__(self, states=3, symbols=6):
        super().__init__()
        self.start = nn.Parameter(torch.randn(states))
        self.trans = nn.Parameter(torch.randn(states, states))
        self.emit = nn.Parameter(torch.randn(states, symbols))

    def forward(self, obs):
        log_t = self.trans.log_softmax(dim=1)
        log_e = self.emit.log_softmax(dim=1)
        alpha = self.start.log_softmax(dim=0) + log_e[:, obs[0]]
        for o in obs[1:]:
            alpha = log_e[:, o] + torch.logsumexp(alpha[:, None] + log_t, dim=0)
        return torch.logsumexp(alpha, dim=0)


def main():
    torch.manual_seed(0)
    weather = torch.randint(0, 6, (80,))
    hmm = HMM()
    opt = torch.optim.Adam(hmm.parameters(), lr=0.05)
    for epoch in range(6):
        loss = -hmm(weather)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"epoch {epoch} nll {loss.item():.3f}")


main()
