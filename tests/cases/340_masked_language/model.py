import torch
from torch import nn

torch.manual_seed(6)


class Filler(nn.Module):
    def __init__(self, vocab=40, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.enc = nn.TransformerEncoderLayer(dim, 4, 48, dropout=0.0, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.out(self.enc(self.emb(ids), src_key_padding_mask=ids == 0))


model = Filler()
inputs = torch.randint(2, 40, (6, 12))
inputs[:2, 9:] = 0
inputs[:, 3] = 1
target = torch.full_like(inputs, -100)
target[:, 3] = torch.randint(2, 40, (6,))


def loss_fn(logits, target):
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100)
