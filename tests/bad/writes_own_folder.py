from pathlib import Path

import torch

here = Path(__file__).parent
(here / "log.txt").write_text("trained\n")
model = torch.nn.Linear(3, 1)
loss = model(torch.ones(4, 3)).pow(2).mean()
loss.backward()
Path(__file__).write_text("# overwritten\n")
