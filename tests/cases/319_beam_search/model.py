import torch
from torch import nn

torch.manual_seed(9)

VOCAB, EOS, WIDTH = 15, 0, 4


class LM(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, VOCAB)

    def step(self, tok, h):
        h = self.cell(self.emb(tok), h)
        return self.out(h).log_softmax(-1), h


@torch.no_grad()
def beam(model, start, steps=8):
    score = torch.full((WIDTH,), float("-inf"))
    score[0] = 0.0
    tok, h = torch.full((WIDTH,), start), torch.zeros(WIDTH, 12)
    done = torch.zeros(WIDTH, dtype=torch.bool)
    history = tok[:, None]
    for _ in range(steps):
        logp, h = model.step(tok, h)
        frozen = torch.full_like(logp, float("-inf"))
        frozen[:, EOS] = 0.0
        total = score[:, None] + torch.where(done[:, None], frozen, logp)
        score, flat = total.flatten().topk(WIDTH)
        src, tok = flat // VOCAB, flat % VOCAB
        h, done = h[src], done[src] | (tok == EOS)
        history = torch.cat([history[src], tok[:, None]], dim=1)
    return history, score


model = LM().eval()
paths, score = beam(model, start=3)
for p, s in zip(paths.tolist(), score.tolist()):
    print(f"{s:.3f}", p)
