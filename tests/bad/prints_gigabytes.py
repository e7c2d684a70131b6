import sys

import torch

model = torch.nn.Linear(3, 1)
loss = model(torch.ones(4, 3)).pow(2).mean()
loss.backward()
line = "x" * 1023 + "\n"
for _ in range(100 * 1024):
    sys.stdout.write(line)
print("the end")
