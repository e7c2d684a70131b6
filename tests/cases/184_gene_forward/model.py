import torch
import torch.nn as nn

torch.manual_seed(1)
BASES = "ACGT"


class GeneHMM(nn.Module):
    def __init__(self):
        super().__init__()
        self.stay = nn.Parameter(torch.tensor([2.0, 2.0]))
        self.emission = nn.Parameter(torch.tensor([[0.0, 0.0, 0.0, 0.0], [-0.5, 0.5, 0.5, -0.5]]))

    def likelihood(self, seq):
        p = torch.sigmoid(self.stay)
        trans = torch.stack([torch.stack([p[0], 1 - p[0]]), torch.stack([1 - p[1], p[1]])])
        emit = self.emission.softmax(1)
        f = 0.5 * emit[:, seq[0]]
        for s in seq[1:]:
            f = (f @ trans) * emit[:, s]
        return f.sum()

    def forward(self, seq):
        return -torch.log(self.likelihood(seq))


strand = "".join(BASES[i] for i in torch.randint(0, 4, (40,))) + "CGCGGCGC" * 6
seq = [BASES.index(c) for c in strand]
hmm = GeneHMM()
opt = torch.optim.Adam(hmm.parameters(), lr=0.05)
for step in range(5):
    loss = hmm(seq)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
