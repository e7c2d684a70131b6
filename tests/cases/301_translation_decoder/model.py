import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocab=30, dim=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Embedding(16, dim)
        layer = nn.TransformerDecoderLayer(dim, 4, 64, dropout=0.1, batch_first=True)
        self.stack = nn.TransformerDecoder(layer, 2)
        self.out = nn.Linear(dim, vocab)

    def forward(self, tgt, memory):
        n = tgt.shape[1]
        causal = torch.full((n, n), float("-inf")).triu(1)
        h = self.tok(tgt) + self.pos(torch.arange(n))
        h = self.stack(h, memory, tgt_mask=causal, tgt_key_padding_mask=torch.zeros_like(tgt).float().masked_fill(tgt == 0, float("-inf")))
        return self.out(h)


def main():
    torch.manual_seed(0)
    model = Decoder()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(12):
        tgt = torch.randint(1, 30, (8, 10))
        tgt[:3, 7:] = 0
        memory = torch.randn(8, 5, 32)
        logits = model(tgt[:, :-1], memory)
        loss = nn.functional.cross_entropy(logits.transpose(1, 2), tgt[:, 1:], ignore_index=0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))


main()
