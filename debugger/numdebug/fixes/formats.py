"""Number types that the program chooses once: for autocast, for its arrays, for its layers."""

from __future__ import annotations

import ast

from numdebug.fixes import layers, scope, spelling
from numdebug.fixes.job import Job, form
from numdebug.fixes.settings import find_constructor, set_keyword
from numdebug.fixes.source import Refused


@form("bfloat16_autocast")
def write_bfloat16(job: Job) -> None:
    """autocast to bfloat16, whose range is that of float32."""
    for role in job.each():
        own = job.source(job.repair.sites[role])
        if spelling.framework(own).framework != "torch":
            layers.wider_range(job, own)
            continue
        source, call = find_constructor(job, role, {"autocast"})
        given = [n for n in ast.walk(call) if isinstance(n, ast.Attribute | ast.Name)]
        halves = [n for n in given if spelling.means(source, n) in {"torch.float16", "torch.half"}]
        root = spelling.torch(job, source, call)
        if len(halves) == 1:
            job.replace(source, halves[0], f"{root}.bfloat16")
        elif not any(k.arg == "dtype" for k in call.keywords):
            set_keyword(job, source, call, "dtype", f"{root}.bfloat16")
        else:
            value = next(k.value for k in call.keywords if k.arg == "dtype")
            definition = scope.reaching(source, value)
            if definition is None or spelling.means(source, definition.value) not in {"torch.float16", "torch.half"}:
                raise Refused("the dtype is set elsewhere")
            job.replace(source, definition.value, f"{root}.bfloat16")
