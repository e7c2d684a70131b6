import torch
from torch import nn


class WordAttention(nn.Module):
    """Pools the word vectors of a review by their relevance to a learned context vector."""

    def __init__(self, vocab, dim):
        super().__init__()
        self.words = nn.Embedding(vocab, dim)
        self.proj = nn.Linear(dim, dim)
        self.context = nn.Parameter(torch.randn(dim))

    def forward(self, tokens):
        h = self.words(tokens)
        u = self.proj(h)
        alpha = torch.softmax(u @ self.context, dim=1)
        return (alpha.unsqueeze(-1) * h).sum(dim=1)


class Rater(nn.Module):
    def __init__(self, vocab=300, dim=256):
        super().__init__()
        self.pool = WordAttention(vocab, dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, tokens):
        return self.out(self.pool(tokens)).squeeze(-1)


def main():
    torch.manual_seed(4)
    reviews = torch.randint(0, 300, (64, 25))
    stars = 1 + 4 * (reviews < 60).float().mean(dim=1)
    net = Rater()
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    for step in range(60):
        batch = torch.randint(0, 64, (16,))
        loss = nn.functional.mse_loss(net(reviews[batch]), stars[batch])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(step, loss.item())


main()
