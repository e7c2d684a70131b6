"""The stable forms, applied to a recorded step. Each module registers its forms by the name that repairs use."""

from numdebug.observe.torch.forms import formats, guards, logarithms  # noqa: F401  (forms register themselves)
from numdebug.observe.torch.forms.registry import rewrites_for

__all__ = ["rewrites_for"]
