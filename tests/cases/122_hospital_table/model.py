import csv
import io

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CSV = """age,pulse,pressure,stay
54,72,131,4
61,88,142,6
47,65,118,2
70,91,150,9
38,70,nan,2
66,84,139,7
59,77,128,5
43,69,121,3
72,95,155,10
50,73,127,4
"""


class Patients(Dataset):
    def __init__(self, text):
        rows = list(csv.DictReader(io.StringIO(text)))
        self.x = torch.tensor([[float(r["age"]), float(r["pulse"]), float(r["pressure"])] for r in rows]) / 100
        self.y = torch.tensor([[float(r["stay"])] for r in rows])

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def main():
    torch.manual_seed(0)
    loader = DataLoader(Patients(CSV), batch_size=2, shuffle=True)
    net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.l1_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(epoch, loss.item())


if __name__ == "__main__":
    main()
