"""What went wrong, and where it went on to, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from numdebug.explain.phrases import Say
from numdebug.report.model import Consequence, Diagnosis

_KINDS = (
    ("output ", "to_outputs", "to_outputs"),
    ("gradient of ", "to_gradient_of", "to_gradients"),
    ("parameter ", "to_parameter", "to_parameters"),
)


def symptom(c: Consequence, step: int | None, say: Say) -> str:
    """the loss is NaN from step 3 on"""
    slots = {"what": named(c.what, say), "value": value(c.value)}
    return say.part("symptom_step", step=step, **slots) if step else say.part("symptom", **slots)


def named(what: str, say: Say) -> str:
    """`gradient of fc.weight` in the reader's language."""
    if what in ("loss", "output"):
        return say.part("loss") if what == "loss" else say.part("output", name="")
    if found := re.fullmatch(r"gradient of (.+)", what):
        return say.part("gradient", name=found[1])
    if what == "gradient":
        return say.part("gradient_plain")
    if found := re.fullmatch(r"(output|parameter) (.+)", what):
        return say.part(found[1], name=found[2])
    return what


def value(text: str) -> str:
    """`nan in 4 of 4 elements` as NaN."""
    word = text.split(" ")[0]
    return "NaN" if word.lower() == "nan" else word


def spreading(d: Diagnosis, say: Say) -> str:
    """to the loss, which is NaN (model.py:27), then in the backward pass to the gradients of b1, b2 and w1 (NaN)"""
    if len(d.consequences) < 2:
        return ""  # the one symptom is what the explanation begins with
    parts = []
    for c in (c for c in d.consequences if c.what == "loss"):
        site = f"{c.site.file}:{c.site.line}" if c.site is not None else say.part("no_place")
        parts.append(say.part("to_loss", value=value(c.value), place=site))
    for kind, one, several in _KINDS:
        mine = [c for c in d.consequences if c.what.startswith(kind)]
        if mine:
            names = [c.what.removeprefix(kind) for c in mine]
            key = one if len(mine) == 1 else several
            parts.append(say.part(key, names=say.each(names), value=_values(mine, say)))
    if any(c.what == "gradient" for c in d.consequences):
        parts.append(say.part("to_gradient", value=_values([c for c in d.consequences if c.what == "gradient"], say)))
    return say.part("then").join(parts)


def _values(those: Sequence[Consequence], say: Say) -> str:
    return say.each(list(dict.fromkeys(value(c.value) for c in those)))
