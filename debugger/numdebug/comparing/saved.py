"""Arrays that were saved: .npy and .npz, safetensors, PyTorch's checkpoints. No file gets to run code here."""

from __future__ import annotations

import json
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from numdebug.errors import UserError

LARGEST_HEADER = 100_000_000  # bytes: the limit that the safetensors library itself sets
DEPTH = 32  # of dictionaries inside each other
_KINDS = "biufcUS"
_MALFORMED = (ValueError, OSError, EOFError, KeyError, TypeError, zipfile.BadZipFile, zlib.error, struct.error, MemoryError, SyntaxError)
_SAFE = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "F8_E4M3": "u1", "F8_E5M2": "u1", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?", "C64": "<c8",
}  # fmt: skip
_NAMES = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
TORCH = (".pt", ".pth", ".ckpt", ".bin")
KNOWN = (".npy", ".npz", ".safetensors", *TORCH)


@dataclass(frozen=True, eq=False)
class Stored:
    """One array. `dtype`: as it was stored; formats that NumPy lacks come as float32 (exact)."""

    array: np.ndarray
    dtype: str


def read(path: Path) -> dict[str, Stored]:
    """By name, what the file holds. Raises UserError."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name one file in it")
    if not path.exists():
        raise UserError(f"{path} does not exist: check the path")
    kind = path.suffix.lower()
    if kind not in KNOWN:
        raise UserError(f"{path} is no file of arrays that numdebug reads: save them as {', '.join(KNOWN[:-1])} or {KNOWN[-1]}")
    found = _torch(path) if kind in TORCH else _safetensors(path) if kind == ".safetensors" else _numpy(path)
    if not found:
        raise UserError(f"{path} holds no arrays: there is nothing to compare")
    return found


# -- NumPy -------------------------------------------------------------------------------------------------------


def _numpy(path: Path) -> dict[str, Stored]:
    try:
        with np.errstate(all="ignore"):
            held = np.load(path, allow_pickle=False)
            if isinstance(held, np.ndarray):
                return {"array": _plain(path, "array", held)}
            with held:
                return {name: _plain(path, name, held[name]) for name in held.files}
    except _MALFORMED as why:
        if "allow_pickle" in str(why) or "Object arrays" in str(why):
            raise UserError(
                f"{path} holds Python objects, which could run code when they are loaded: save arrays of numbers, each under its own name"
            ) from why
        raise UserError(f"{path} is damaged or no {path.suffix} file: {_first(why)}; save it again") from why


def _plain(path: Path, name: str, array: Any) -> Stored:
    if not isinstance(array, np.ndarray):
        raise UserError(f"{path} holds {name}, which is no array: save arrays only")
    if array.dtype.kind == "V":
        what = "records" if array.dtype.names else f"{array.dtype.itemsize}-byte elements without a format"
        hint = "save its fields one by one" if array.dtype.names else "NumPy forgets formats such as bfloat16: save it as float32"
        raise UserError(f"{path} holds {what} under {name}: {hint}")
    if array.dtype.kind not in _KINDS:
        raise UserError(f"{path} holds {array.dtype} under {name}: save numbers")
    native = array.dtype.newbyteorder("=")
    return Stored(array.astype(native, copy=False), native.name if array.dtype.kind not in "US" else "text")


# -- safetensors -------------------------------------------------------------------------------------------------


def _safetensors(path: Path) -> dict[str, Stored]:
    """8 bytes with the length of a JSON header, the header, then the elements row by row, all little-endian."""
    try:
        content = path.read_bytes()
    except OSError as why:
        raise UserError(f"{path} cannot be read: {_first(why)}") from why
    broken = f"{path} is no valid safetensors file"
    if len(content) < 8:
        raise UserError(f"{broken}: it has {len(content)} bytes, less than the length of its header takes; save it again")
    (length,) = struct.unpack("<Q", content[:8])
    if length > min(len(content) - 8, LARGEST_HEADER):
        raise UserError(f"{broken}: it ends before its header does; save or download it again")
    try:
        header = json.loads(content[8 : 8 + length].decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as why:
        raise UserError(f"{broken}: its header cannot be read ({_first(why)}); save it again") from why
    if not isinstance(header, dict):
        raise UserError(f"{broken}: its header is no table of tensors; save it again")
    header.pop("__metadata__", None)
    data = memoryview(content)[8 + length :]
    found = {name: _tensor(broken, name, entry, data) for name, entry in header.items()}
    spans = sorted((entry["data_offsets"], name) for name, entry in header.items())
    for (one, first), (two, second) in pairwise(spans):
        if two[0] < one[1]:
            raise UserError(f"{broken}: {first} and {second} overlap; save it again")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = next((n for n in names if names.count(n) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise ValueError(f"{twice} is there twice")
    return dict(pairs)


def _tensor(broken: str, name: str, entry: Any, data: memoryview) -> Stored:
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= set(entry):
        raise UserError(f"{broken}: {name} has no dtype, shape and data_offsets; save it again")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if kind not in _SAFE:
        raise UserError(f"{broken[: broken.rindex(' is no')]} holds {name} in {kind}, which numdebug does not read: save it as float32")
    if not _whole(shape) or not _whole(offsets) or len(offsets) != 2 or len(shape) > 32:
        raise UserError(f"{broken}: shape or place of {name} is not given in whole numbers; save it again")
    begin, end = offsets
    dtype = np.dtype(_SAFE[kind])
    if end > len(data):
        raise UserError(f"{broken}: it ends before {name} does; save or download it again")
    if begin > end or end - begin != math.prod(shape) * dtype.itemsize:
        raise UserError(f"{broken}: {name} is {max(0, end - begin)} bytes long, its shape says {math.prod(shape) * dtype.itemsize}")
    array = np.frombuffer(data[begin:end], dtype).reshape(shape)
    return Stored(_decoded(array, kind), _NAMES.get(kind, dtype.newbyteorder("=").name))


def _whole(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 1 << 62 for n in numbers)


def _decoded(array: np.ndarray, kind: str) -> np.ndarray:
    """bfloat16 is the upper half of float32, e5m2 that of float16; e4m3 has 256 numbers."""
    if kind == "BF16":
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if kind == "F8_E5M2":
        return (array.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float32)
    if kind == "F8_E4M3":
        return np.asarray(_e4m3()[array])
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _e4m3() -> np.ndarray:
    """Sign, 4 bits of exponent with bias 7, 3 of fraction; no infinity, and NaN where all seven bits are 1."""
    codes = np.arange(256)
    exponent, fraction = codes >> 3 & 15, codes & 7
    size = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10.0))
    return np.where(codes & 127 == 127, np.nan, np.where(codes & 128, -size, size)).astype(np.float32)


# -- PyTorch -----------------------------------------------------------------------------------------------------


def _torch(path: Path) -> dict[str, Stored]:
    try:
        import torch
    except ImportError as why:
        raise UserError(f"{path} is a checkpoint of PyTorch, which is not installed: pip install torch") from why
    from pickle import UnpicklingError

    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as why:
        raise UserError(_refused(path, str(why))) from why
    except Exception as why:  # anything may be in a damaged file
        text = _first(why)
        if "TorchScript" in str(why):
            raise UserError(f"{path} is a TorchScript program, not a table of weights: save model.state_dict() instead") from why
        raise UserError(f"{path} is damaged or no checkpoint of PyTorch: {text}; save it again") from why
    return dict(_tensors(path, "", held, torch))


def _refused(path: Path, why: str) -> str:
    """weights_only lets tensors and plain containers through; what else a pickle names could run code."""
    named = why.partition("GLOBAL ")[2].split()
    what = f" ({named[0].rstrip('.,')})" if named else ""
    if "Unsupported global" not in why and "GLOBAL" not in why:
        return f"{path} is damaged or no checkpoint of PyTorch: {why.splitlines()[0] if why else 'it cannot be read'}; save it again"
    return (
        f"{path} holds Python objects beside its tensors{what}, and loading those would run code of the file: "
        "save model.state_dict() instead of the model"
    )


def _tensors(path: Path, name: str, held: Any, torch: Any, depth: int = 0) -> Iterator[tuple[str, Stored]]:
    """Of nested dictionaries and lists, with dotted names; plain numbers and words are left out."""
    if isinstance(held, torch.Tensor):
        yield name or "tensor", _stored(path, name or "tensor", held, torch)
    elif depth < DEPTH:
        items = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, (list, tuple)) else ()
        for key, item in items:
            yield from _tensors(path, f"{name}.{key}" if name else str(key), item, torch, depth + 1)


def _stored(path: Path, name: str, tensor: Any, torch: Any) -> Stored:
    dtype = str(tensor.dtype).removeprefix("torch.")
    try:
        tensor = tensor.detach()
        if tensor.is_quantized:
            tensor = tensor.dequantize()
        if tensor.layout is not torch.strided:
            tensor = tensor.to_dense()
        if dtype.startswith(("bfloat", "float8")):
            tensor = tensor.float()
        return Stored(tensor.resolve_conj().resolve_neg().numpy(), dtype)
    except (RuntimeError, TypeError, NotImplementedError) as why:
        raise UserError(f"{path} holds {name} in a form that numdebug does not read ({dtype}): {_first(why)}") from why


def _first(why: BaseException) -> str:
    return (str(why).splitlines() or [type(why).__name__])[0].rstrip(".")[:200]
