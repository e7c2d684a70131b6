import torch

torch.manual_seed(10)

ARMS = 6
payout = torch.tensor([0.1, 0.8, 0.3, 0.5, 0.2, 0.6])
preference = torch.zeros(ARMS, requires_grad=True)
baseline, eta = 0.0, 4.0


def policy(temperature):
    return torch.log_softmax(preference / temperature, dim=0)


for t in range(1200):
    temperature = max(0.05, 1.0 - t / 800)
    pi = policy(temperature)
    arm = int(pi.argmax()) if torch.rand(()) > 0.2 else int(torch.randint(ARMS, ()))
    reward = float(torch.rand(()) < payout[arm])
    loss = -(reward - baseline) * pi[arm]
    loss.backward()
    with torch.no_grad():
        preference -= eta * temperature * preference.grad
        preference.grad = None
    baseline += 0.05 * (reward - baseline)
    if t % 200 == 0:
        print(t, f"{loss.item():.4f}", [round(v, 2) for v in preference.tolist()])
