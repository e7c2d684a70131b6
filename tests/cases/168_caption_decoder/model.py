import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class CaptionDecoder(nn.Module):
    def __init__(self, vocab=25, dim=32):
        super().__init__()
        self.word = nn.Embedding(vocab, dim)
        self.cross = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens, regions, n_regions):
        pad = torch.arange(regions.shape[1]) >= n_regions[:, None]
        h = self.word(tokens)
        seen, _ = self.cross(h, regions, regions, key_padding_mask=pad)
        return self.head(self.norm(h + seen))


model = CaptionDecoder()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
detections = [[3, 5, 2, 6], [4, 4, 1, 6], [2, 0, 3, 5], [6, 1, 2, 2]]
for step, counts in enumerate(detections):
    tokens = torch.randint(0, 25, (4, 7))
    regions = torch.randn(4, 6, 32)
    logits = model(tokens[:, :-1], regions, torch.tensor(counts))
    loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, f"{loss.item():.4f}")
