import torch
import torch.nn as nn

torch.manual_seed(13)

prices = (0.03 * torch.randn(300)).cumsum(0).exp() * 8
past = prices.unfold(0, 10, 1)[:-1]
future = prices[10:]


def log_error(pred, actual):
    return (torch.log(pred) - torch.log(actual)).pow(2).mean()


model = nn.Linear(10, 1)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(15):
    order = torch.randperm(len(past))
    for i in range(0, len(past), 58):
        idx = order[i:i + 58]
        pred = model(past[idx]).squeeze(-1)
        loss = log_error(pred, future[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
