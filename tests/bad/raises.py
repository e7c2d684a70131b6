import torch

torch.nn.Linear(2, 2)
raise ValueError("the data folder \x1b[31mis empty")
