import torch
import torch.nn as nn

torch.manual_seed(6)

obs = torch.randn(400, 6)
action = torch.tanh(obs[:, :2]) + 0.3 * torch.randn(400, 2)
returns = 100.0 - 90.0 * (action - torch.tanh(obs[:, :2])).square().sum(1)

value = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
actor = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
v_opt = torch.optim.Adam(value.parameters(), lr=1e-2)
pi_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
beta = 1.0

for it in range(40):
    idx = torch.randint(0, 400, (100,))
    v = value(obs[idx]).squeeze(1)
    v_loss = nn.functional.smooth_l1_loss(v, returns[idx])
    v_opt.zero_grad()
    v_loss.backward()
    v_opt.step()

    weight = ((returns[idx] - v.detach()) / beta).clamp(max=4.6).exp()
    pi_loss = (weight * (actor(obs[idx]) - action[idx]).pow(2).sum(1)).mean()
    pi_opt.zero_grad()
    pi_loss.backward()
    pi_opt.step()
    if it % 10 == 0:
        print(it, v_loss.item(), pi_loss.item())
