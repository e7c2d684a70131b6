import torch
import torch.nn as nn

NOUN, VERB, ADJ, DET = range(4)


class CRFTagger(nn.Module):
    def __init__(self, vocab=40, dim=16, tags=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * dim, tags)
        self.transitions = nn.Parameter(torch.zeros(tags, tags))

    def partition(self, unary):
        score = unary[:, 0]
        for t in range(1, unary.shape[1]):
            step = score.unsqueeze(2) + self.transitions + unary[:, t].unsqueeze(1)
            score = step.exp().sum(1).log()
        return score.exp().sum(1).log()

    def path(self, unary, tags):
        total = unary.gather(2, tags[..., None]).squeeze(2).sum(1)
        return total + self.transitions[tags[:, :-1], tags[:, 1:]].sum(1)

    def loss(self, words, tags):
        unary = self.fc(self.lstm(self.emb(words))[0])
        return (self.partition(unary) - self.path(unary, tags)).mean()


torch.manual_seed(6)
words = torch.randint(0, 40, (24, 20))
tags = words % 4
tagger = CRFTagger()
opt = torch.optim.Adam(tagger.parameters(), lr=0.05)
for step in range(40):
    loss = tagger.loss(words, tags)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 8 == 0:
        print(step, loss.item())
