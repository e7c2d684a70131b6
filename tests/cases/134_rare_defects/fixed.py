import torch
from torch import nn

torch.manual_seed(14)


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, target):
        logpt = torch.log_softmax(logits, dim=-1).gather(-1, target.unsqueeze(-1))
        return ((1 - logpt.exp()) ** self.gamma * -logpt).mean()


inputs = torch.randn(400, 8)
inputs[:, 3] *= 500
target = torch.where(inputs[:, 3] + 150 * inputs[:, 0] > 700, 1, 0)

classifier = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
loss_fn = FocalLoss()
opt = torch.optim.AdamW(classifier.parameters(), lr=5e-2)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=20, gamma=0.5)

for epoch in range(30):
    for idx in torch.randperm(400).chunk(8):
        loss = loss_fn(classifier(inputs[idx]), target[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    sched.step()
    if epoch % 5 == 0:
        print(epoch, loss.item())
