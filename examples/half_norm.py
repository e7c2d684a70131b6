"""Normalises features by their length, in float16."""

import torch
from torch import nn


class UnitLength(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(64, 32, bias=False)

    def forward(self, features):
        h = self.project(features)
        length = (h * h).sum(dim=-1, keepdim=True).sqrt()
        return h / length


torch.manual_seed(0)
model = UnitLength().half()
features = (torch.randn(4, 64) * 300.0).half()
