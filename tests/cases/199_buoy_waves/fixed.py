import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load_buoy(days=20, seed=0):
    rng = np.random.default_rng(seed)
    hours = np.arange(24 * days)
    height = 1.5 + 0.6 * np.sin(hours / 40) + 0.1 * rng.normal(size=len(hours))
    height[310:313] = np.nan
    return height.astype(np.float32)


def windows(series, length=12):
    x = np.lib.stride_tricks.sliding_window_view(series, length + 1)
    x = x[np.isfinite(x).all(axis=1)]
    return torch.tensor(x[:, :-1].copy()), torch.tensor(x[:, -1:].copy())


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(1, 12, batch_first=True)
        self.out = nn.Linear(12, 1)

    def forward(self, x):
        h, _ = self.rnn(x.unsqueeze(-1))
        return self.out(h[:, -1])


torch.manual_seed(0)
loader = DataLoader(TensorDataset(*windows(load_buoy())), batch_size=32)
model = Forecaster()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
    print("epoch", epoch, "last loss", loss.item())
