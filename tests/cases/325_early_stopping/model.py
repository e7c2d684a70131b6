import math

import torch
from torch import nn

torch.manual_seed(4)

x = torch.randn(200, 6)
y = (x[:, :2].sum(1, keepdim=True)).sin()
train, val = slice(0, 150), slice(150, 200)

model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=5)

best, best_state, patience = math.inf, None, 0
for epoch in range(120):
    loss = nn.functional.mse_loss(model(x[train]), y[train])
    if torch.isnan(loss):
        raise SystemExit("loss is nan")
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        val_loss = nn.functional.mse_loss(model(x[val]), y[val]).item()
    plateau.step(val_loss)
    if val_loss < best:
        best, patience = val_loss, 0
        best_state = {k: v.clone() for k, v in model.state_dict().items()}
    else:
        patience += 1
        if patience == 15:
            break
model.load_state_dict(best_state)
print("stopped at", epoch, "best", best)
