import torch
import torch.nn as nn

torch.manual_seed(3)


def soft_recall(prob, label, classes):
    member = nn.functional.one_hot(label, classes).float()
    hit = torch.relu(prob - 0.5) * 2 * member
    return hit.sum(dim=0) / member.sum(dim=0)


def geometric_mean(v):
    return torch.exp(torch.log(v + 1e-3).mean())


x = torch.randn(200, 5)
label = (x[:, 0] + x[:, 1]).sign().long() + 1
label[x[:, 2] > 1.6] = 1
net = nn.Linear(5, 3)
opt = torch.optim.Adam(net.parameters(), lr=2e-2)
for epoch in range(20):
    recall = soft_recall(net(x).softmax(dim=1), label, 3)
    loss = 1 - geometric_mean(recall)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 5 == 0:
        print(epoch, loss.item(), recall.tolist())
