"""Dataclasses to plain JSON values and back: one rule for the journal, the report and the tests.

Non-finite numbers become the strings "nan", "inf" and "-inf", because strict JSON has no other place for them.
"""

from __future__ import annotations

import math
import types
from dataclasses import fields, is_dataclass
from functools import cache
from os import PathLike, fspath
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_plain(value: Any) -> Any:
    """`value` as what strict JSON can hold. Zero-dimensional arrays become numbers; anything unknown becomes its text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(v) for v in value]
    if isinstance(value, PathLike):
        return fspath(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return to_plain(value.item())
    return str(value)


def from_plain(kind: type[T], data: Any) -> T:
    """The `kind` that `to_plain` made `data` from. Unknown keys are ignored and missing ones take their defaults."""
    return _build(kind, data)  # type: ignore[no-any-return]  # the annotation drives it, which mypy cannot follow


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _build(hint: Any, data: Any) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return _revive(data)
    if origin in (Union, types.UnionType):
        return _build_union(args, data)
    if origin is Literal or data is None:
        return data
    if origin is tuple:
        item = args[0] if len(args) == 2 and args[1] is Ellipsis else None
        return tuple(_build(item or args[i], v) for i, v in enumerate(data))
    if origin is list:
        return [_build(args[0], v) for v in data]
    if origin is dict:
        return {k: _build(args[1], v) for k, v in data.items()}
    if is_dataclass(hint) and isinstance(data, dict):
        hints = _hints(hint)  # type: ignore[arg-type]  # is_dataclass holds for the class here
        return hint(**{f.name: _build(hints[f.name], data[f.name]) for f in fields(hint) if f.name in data})  # type: ignore[operator]
    if hint is float:
        return float(data)
    return data


def _build_union(args: tuple[Any, ...], data: Any) -> Any:
    if data is None:
        return None
    if float in args and isinstance(data, str) and data in NON_FINITE:
        return NON_FINITE[data]
    if str in args or bool in args:
        return data
    return _build(next(a for a in args if a is not type(None)), data)


def _revive(data: Any) -> Any:
    if isinstance(data, str):
        return NON_FINITE.get(data, data)
    if isinstance(data, list):
        return [_revive(v) for v in data]
    if isinstance(data, dict):
        return {k: _revive(v) for k, v in data.items()}
    return data
