"""`--input 'x=float32[8,3,32,32]'`: inputs that the user describes and numdebug invents."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from typing import Any

from numdebug.errors import UserError

DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64", "complex128")
SEED = 0
LARGEST = 2**31  # elements: beyond this the invented input alone would not fit most machines
FORM = re.compile(r"(?P<name>[^\W\d]\w*)=(?P<dtype>[a-z]+\d*)\[(?P<shape>[\d,\s]*)\](?:<(?P<below>\d+))?")
HOW = "write it as NAME=DTYPE[SHAPE], for instance --input 'x=float32[8,3,32,32]' or --input 'ids=int64[4,16]<1000'"


@dataclass(frozen=True)
class Wanted:
    """One described input. Integers are drawn from 0 up to, not including, `below`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    below: int = 2

    def __str__(self) -> str:
        values = f"integers in [0, {self.below})" if "int" in self.dtype else "standard normal values"
        return f"{self.name}={self.dtype}[{','.join(map(str, self.shape))}] ({values}, seed {SEED})"


def parse(text: str) -> Wanted:
    """The input that `text` describes, or a UserError that says how to write one."""
    found = FORM.fullmatch(text.strip())
    if not found:
        raise UserError(f"--input {text!r} is not understood; {HOW}.")
    if found["dtype"] not in DTYPES:
        raise UserError(f"--input {text!r} names no dtype that numdebug knows ({', '.join(DTYPES)}); {HOW}.")
    if found["below"] and "int" not in found["dtype"]:
        raise UserError(f"--input {text!r} gives an upper limit to {found['dtype']}, which only integers take; {HOW}.")
    shape = tuple(int(n) for n in found["shape"].replace(" ", "").split(",") if n)
    if math.prod(shape) > LARGEST:
        raise UserError(f"--input {text!r} asks for {math.prod(shape):,} elements; at most {LARGEST:,} can be invented.")
    return Wanted(found["name"], found["dtype"], shape, int(found["below"] or 2))


def invent(wanted: Wanted) -> Any:
    """A tensor where the program has imported torch, else a NumPy array."""
    torch = sys.modules.get("torch")
    if torch is None:
        return _numpy(wanted)
    generator = torch.Generator().manual_seed(SEED)
    dtype = getattr(torch, wanted.dtype)
    if wanted.dtype == "bool" or "int" in wanted.dtype:
        return torch.randint(0, wanted.below, wanted.shape, generator=generator).to(dtype)
    return torch.randn(wanted.shape, generator=generator, dtype=dtype if dtype.is_complex else None).to(dtype)


def _numpy(wanted: Wanted) -> Any:
    import numpy as np

    generator = np.random.default_rng(SEED)
    if wanted.dtype == "bool" or "int" in wanted.dtype:
        return generator.integers(0, wanted.below, wanted.shape).astype(wanted.dtype)
    return generator.standard_normal(wanted.shape).astype("float32" if wanted.dtype == "bfloat16" else wanted.dtype)
