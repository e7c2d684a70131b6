import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class TideNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 16, num_layers=2, dropout=0.1, batch_first=True)
        self.out = nn.Linear(16, 1)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(h)


torch.manual_seed(2)
lengths = torch.randint(8, 25, (20,))
series = [torch.sin(torch.arange(int(n) + 1) / 3.0 + torch.rand(1) * 6) for n in lengths]
x = pad_sequence([s[:-1] for s in series], batch_first=True).unsqueeze(-1)
y = pad_sequence([s[1:] for s in series], batch_first=True).unsqueeze(-1)
mask = (torch.arange(x.shape[1]) < lengths[:, None]).unsqueeze(-1)

net = TideNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(15):
    err = (net(x, lengths) - y) ** 2
    loss = (err * mask).sum() / mask.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("mse", loss.item())
