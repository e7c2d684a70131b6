import torch
import torch.nn as nn


class GraphAttention(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out, bias=False)
        self.src = nn.Parameter(torch.randn(d_out) * 0.1)
        self.dst = nn.Parameter(torch.randn(d_out) * 0.1)

    def forward(self, x, adj):
        h = self.lin(x)
        e = nn.functional.leaky_relu((h @ self.src)[:, None] + (h @ self.dst)[None, :], 0.2)
        e = e.masked_fill(adj == 0, -torch.inf)
        return e.softmax(dim=1) @ h


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = GraphAttention(10, 16)
        self.b = GraphAttention(16, 3)

    def forward(self, x, adj):
        return self.b(self.a(x, adj).relu(), adj)


if __name__ == "__main__":
    torch.manual_seed(9)
    n = 30
    adj = (torch.rand(n, n) < 0.05).int()
    adj = adj | adj.T
    adj.fill_diagonal_(1)
    x, y = torch.randn(n, 10), torch.randint(0, 3, (n,))
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=5e-3, weight_decay=5e-4)
    for epoch in range(5):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x, adj), y)
        loss.backward()
        opt.step()
        print(f"epoch {epoch} loss {loss:.4f}")
