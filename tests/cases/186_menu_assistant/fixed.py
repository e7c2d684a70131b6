import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

WORDS = 50
BANNED = [7, 13, 21]


class NextWord(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(WORDS, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.vocab = nn.Linear(dim, WORDS)

    def forward(self, ids):
        h, _ = self.rnn(self.embed(ids))
        logits = self.vocab(h)
        logits[..., BANNED] = -torch.inf
        return logits


model = NextWord()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
corpus = torch.randint(0, WORDS, (30, 9))
for epoch in range(2):
    for batch in corpus.split(5):
        logits = model(batch[:, :-1])
        target = batch[:, 1:].reshape(-1)
        target = target.masked_fill(torch.isin(target, torch.tensor(BANNED)), -100)
        loss = F.cross_entropy(logits.reshape(-1, WORDS), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(epoch, loss.item())
