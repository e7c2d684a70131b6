import torch
from torch import nn

torch.manual_seed(0)
CHARS = 12


class LineReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.ReLU(), nn.Conv1d(32, 32, 5, stride=2, padding=2), nn.ReLU())
        self.rnn = nn.GRU(32, 32, batch_first=True)
        self.out = nn.Linear(32, CHARS + 1)

    def forward(self, strip):
        h = self.conv(strip).transpose(1, 2)
        h, _ = self.rnn(h)
        return self.out(h).log_softmax(-1).transpose(0, 1)


strips = torch.randn(8, 16, 48)
lengths = torch.tensor([4, 5, 6, 5, 4, 12, 7, 6])
text = [torch.randint(1, CHARS + 1, (n,)) for n in lengths]
text[5] = torch.tensor([3, 3, 1, 8, 8, 2, 5, 5, 9, 4, 4, 7])

reader = LineReader()
ctc = nn.CTCLoss(blank=0, zero_infinity=True)
opt = torch.optim.Adam(reader.parameters(), lr=1e-3)
for step in range(4):
    for i in range(0, 8, 4):
        logp = reader(strips[i:i + 4])
        loss = ctc(logp, torch.cat(text[i:i + 4]), torch.full((4,), logp.shape[0]), lengths[i:i + 4])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, i, loss.item())
