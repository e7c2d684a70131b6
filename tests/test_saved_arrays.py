"""Saved arrays and checkpoints: read without running code of theirs, compared, and what explains the difference."""

from __future__ import annotations

import json
import pickle
import struct
from collections import OrderedDict
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from numdebug.comparing.saved import Stored, read
from numdebug.comparing.stored import Pair, Tables, compare, one
from numdebug.errors import UserError
from numdebug.formats import rounded

NUMBERS = np.random.default_rng(0).normal(size=(40, 30)).astype(np.float32)


def safetensors(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    """A file written by hand."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


# -- reading -----------------------------------------------------------------------------------------------------


def test_numpy_s_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", NUMBERS.astype(">f4"))
    np.savez_compressed(tmp_path / "b.npz", w=NUMBERS, n=np.arange(3), label=np.array(["x", "y"]))
    (only,) = read(tmp_path / "a.npy").values()
    assert only.dtype == "float32"
    assert np.array_equal(only.array, NUMBERS)
    both = read(tmp_path / "b.npz")
    assert {name: s.dtype for name, s in both.items()} == {"w": "float32", "n": "int64", "label": "text"}


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int8", "bool", "uint32"])
def test_safetensors_of_numpy_s_formats(kind: str, tmp_path: Path) -> None:
    names = {"float64": "F64", "float32": "F32", "float16": "F16", "int8": "I8", "bool": "BOOL", "uint32": "U32"}
    array = (np.arange(6) % 2).astype(kind).reshape(2, 3)
    file = safetensors(tmp_path / "m.safetensors", {"__metadata__": {"format": "pt"}, "w": entry(names[kind], [2, 3], 0, array.nbytes)},
                       array.tobytes())  # fmt: skip
    (held,) = read(file).values()
    assert held.dtype == kind
    assert np.array_equal(held.array, array)


@pytest.mark.parametrize(
    ("kind", "dtype"), [("BF16", ml_dtypes.bfloat16), ("F8_E4M3", ml_dtypes.float8_e4m3fn), ("F8_E5M2", ml_dtypes.float8_e5m2)]
)
def test_every_number_of_the_formats_that_numpy_lacks(kind: str, dtype: Any, tmp_path: Path) -> None:
    width = np.dtype(dtype).itemsize
    codes = np.arange(256 ** min(width, 2), dtype=f"u{width}")
    file = safetensors(tmp_path / "m.safetensors", {"w": entry(kind, [codes.size], 0, codes.nbytes)}, codes.tobytes())
    held = read(file)["w"]
    assert held.dtype == np.dtype(dtype).name
    assert np.array_equal(held.array, codes.view(dtype).astype(np.float32), equal_nan=True)


def test_checkpoints_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    low = torch.ones(2, dtype=torch.bfloat16) / 3
    sparse = torch.eye(2).to_sparse()
    state = {"model": model.state_dict(), "step": 7, "optimizer": {"state": [torch.arange(2)]}, "low": low, "sparse": sparse}
    torch.save(state, tmp_path / "c.pt")
    found = read(tmp_path / "c.pt")
    assert {"model.0.weight", "model.1.running_mean", "optimizer.state.0", "low", "sparse"} <= set(found)
    assert "step" not in found
    assert found["low"].dtype == "bfloat16"
    assert found["low"].array.dtype == np.float32
    assert np.array_equal(found["sparse"].array, np.eye(2))
    torch.save(torch.zeros(2), tmp_path / "t.pth")
    assert set(read(tmp_path / "t.pth")) == {"tensor"}


def test_a_pickled_model_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.save({"w": torch.zeros(2), "half": Fraction(1, 2)}, tmp_path / "model.pt")
    with pytest.raises(UserError, match=r"model.pt holds Python objects beside its tensors \(fractions.Fraction\).*state_dict"):
        read(tmp_path / "model.pt")


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_pickle_never_runs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"w": Evil()}, tmp_path / "evil.ckpt")
    np.save(tmp_path / "evil.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    (tmp_path / "evil.bin").write_bytes(pickle.dumps(Evil()))
    for name in ("evil.ckpt", "evil.npy", "evil.bin"):
        with pytest.raises(UserError):
            read(tmp_path / name)
    assert not (tmp_path / "ran").exists()


def _bad(tmp_path: Path) -> dict[str, Path]:
    good = entry("F32", [2], 0, 8)
    np.savez(tmp_path / "objects.npz", w=np.array([{}, {}], dtype=object))
    np.savez(tmp_path / "records.npz", w=np.zeros(2, [("x", "f4")]))
    np.save(tmp_path / "low.npy", np.ones(2, ml_dtypes.bfloat16).view("V2"))
    np.savez(tmp_path / "dates.npz", w=np.array(["2020-01-01"], "datetime64[D]"))
    np.savez(tmp_path / "none.npz")
    np.savez(tmp_path / "cut.npz", w=NUMBERS)
    whole = (tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    np.save(tmp_path / "short.npy", NUMBERS)
    (tmp_path / "short.npy").write_bytes((tmp_path / "short.npy").read_bytes()[:200])
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "words.npz").write_text("hello")
    (tmp_path / "table.csv").write_text("1,2")
    (tmp_path / "folder").mkdir()
    (tmp_path / "words.pt").write_text("hello")
    (tmp_path / "tiny.safetensors").write_bytes(b"\0\0")
    made = {
        "long": safetensors(tmp_path / "long.safetensors", {"w": good}, bytes(8), length=1 << 40),
        "json": safetensors(tmp_path / "json.safetensors", b"{nonsense"),
        "utf8": safetensors(tmp_path / "utf8.safetensors", b"\xff\xfe"),
        "deep": safetensors(tmp_path / "deep.safetensors", b"[" * 100_000),
        "list": safetensors(tmp_path / "list.safetensors", [1]),
        "twice": safetensors(tmp_path / "twice.safetensors", b'{"w": 1, "w": 2}'),
        "bare": safetensors(tmp_path / "bare.safetensors", {"w": {"dtype": "F32"}}),
        "kind": safetensors(tmp_path / "kind.safetensors", {"w": entry("F4", [2], 0, 1)}, bytes(1)),
        "negative": safetensors(tmp_path / "negative.safetensors", {"w": entry("F32", [-2], 0, 8)}, bytes(8)),
        "fraction": safetensors(tmp_path / "fraction.safetensors", {"w": {**good, "data_offsets": [0, 8.5]}}, bytes(8)),
        "beyond": safetensors(tmp_path / "beyond.safetensors", {"w": good}, bytes(4)),
        "size": safetensors(tmp_path / "size.safetensors", {"w": entry("F32", [3], 0, 8)}, bytes(8)),
        "back": safetensors(tmp_path / "back.safetensors", {"w": entry("F32", [0], 8, 4)}, bytes(8)),
        "overlap": safetensors(tmp_path / "overlap.safetensors", {"v": good, "w": entry("F32", [2], 4, 12)}, bytes(12)),
        "huge": safetensors(tmp_path / "huge.safetensors", {"w": entry("F32", [1 << 40, 1 << 40], 0, 8)}, bytes(8)),
        "nothing": safetensors(tmp_path / "nothing.safetensors", {}),
    }
    return made | {file.name: file for file in tmp_path.iterdir()} | {"absent": tmp_path / "absent.npz"}


SAID = {
    "objects.npz": "Python objects", "records.npz": "records", "low.npy": "forgets formats such as bfloat16", "dates.npz": "save numbers",
    "none.npz": "holds no arrays", "cut.npz": "damaged", "short.npy": "damaged", "empty.npy": "damaged", "words.npz": "damaged|objects",
    "table.csv": "no file of arrays", "folder": "is a folder", "words.pt": "damaged", "tiny.safetensors": "2 bytes", "long": "ends before",
    "json": "header cannot be read", "utf8": "header cannot be read", "deep": "header cannot be read", "list": "no table", "twice": "twice",
    "bare": "no dtype", "kind": "F4, which numdebug does not read", "negative": "whole numbers", "fraction": "whole numbers",
    "beyond": "ends before w", "size": "its shape says 12", "back": "0 bytes", "overlap": "overlap", "huge": "its shape says",
    "nothing": "no arrays", "absent": "does not exist",
}  # fmt: skip


@pytest.mark.parametrize("which", SAID)
def test_every_bad_file_gets_one_sentence(which: str, tmp_path: Path) -> None:
    file = _bad(tmp_path)[which]
    with pytest.raises(UserError, match=SAID[which]) as caught:
        read(file)
    text = str(caught.value)
    assert text.startswith(str(file))
    assert "\n" not in text
    assert len(text) - len(str(file)) < 260


def test_any_truncation_is_refused_or_read(tmp_path: Path) -> None:
    file = safetensors(tmp_path / "m.safetensors", {"v": entry("F32", [2], 0, 8), "w": entry("BF16", [3], 8, 14)}, bytes(range(14)))
    whole = file.read_bytes()
    for end in range(len(whole)):
        file.write_bytes(whole[:end])
        with pytest.raises(UserError):
            read(file)


# -- comparing ---------------------------------------------------------------------------------------------------


def stored(array: Any, dtype: str | None = None) -> Stored:
    array = np.asarray(array)
    return Stored(array, dtype or array.dtype.name)


def pair(a: Any, b: Any, **tolerance: float) -> Pair:
    a, b = (x if isinstance(x, Stored) else stored(x) for x in (a, b))
    return one("w", a, b, **tolerance)


def test_identical_and_the_same_in_another_format() -> None:
    holes = np.where(NUMBERS > 2, np.nan, NUMBERS)
    assert pair(holes, holes.copy()).explanation == "identical"
    assert pair(NUMBERS, NUMBERS.astype(np.float64)).explanation == "same-values"
    assert pair(np.array([0.0]), np.array([-0.0])).explanation == "same-values"
    assert pair(np.array(["a"]), np.array(["a"])).explanation == "identical"
    assert pair(np.array(["a"]), np.array(["b"])).explanation == "real-difference"


@pytest.mark.parametrize("form", ["bfloat16", "float16"])
def test_stored_in_a_narrower_format(form: str) -> None:
    low = rounded(NUMBERS, form).astype(np.float32)
    found = pair(stored(NUMBERS), stored(low, form))
    assert (found.explanation, found.format, found.rounded) == ("dtype-mismatch", form, "second")
    assert 0 < found.ulps <= 0.5
    through = pair(low, NUMBERS)
    assert (through.explanation, through.format, through.rounded) == ("reduced-precision", form, "first")
    small = NUMBERS * np.float32(1e-4)  # float16 has fewer digits there
    assert pair(small, rounded(small, "tf32").astype(np.float32)).format == "tf32"
    wide = np.random.default_rng(1).normal(size=50)
    assert pair(wide, wide.astype(np.float32)).explanation == "dtype-mismatch"


def test_too_large_for_the_narrower_format_is_explained_by_it() -> None:
    numbers = np.array([1.0, 1e5, 3.0], np.float32)
    found = pair(stored(numbers), stored(np.array([1.0, np.inf, 3.0], np.float16)))
    assert (found.explanation, found.non_finite) == ("dtype-mismatch", 1)


def test_flushed_subnormals() -> None:
    small = NUMBERS.copy()
    small[:3] *= np.float32(1e-40)
    flushed = np.where(np.abs(small) < np.finfo(np.float32).tiny, np.float32(0), small)
    found = pair(small, flushed)
    assert (found.explanation, found.flushed) == ("flush-to-zero", 90)
    flushed[5, 5] *= 2
    assert pair(small, flushed).explanation == "real-difference"


def test_within_the_tolerance() -> None:
    near = np.nextafter(NUMBERS, np.float32(10))
    found = pair(NUMBERS, near)
    assert (found.explanation, found.share) == ("rounding-difference", 1.0)
    assert found.ulps == pytest.approx(1.0)
    further = np.nextafter(near, np.float32(10))
    assert pair(NUMBERS, further).explanation == "real-difference"
    assert pair(NUMBERS, further, ulps=2).explanation == "rounding-difference"
    assert pair(NUMBERS, NUMBERS + np.float32(1e-4), rtol=1e-5, atol=1e-3).explanation == "rounding-difference"


def test_a_real_difference_says_where_and_what_it_looks_like() -> None:
    changed = NUMBERS.copy()
    changed[3, 4] += 0.5
    found = pair(NUMBERS, changed)
    assert (found.explanation, found.differing, found.at, found.hint) == ("real-difference", 1, (3, 4), "")
    assert found.largest == pytest.approx(0.5)
    assert not found.explained
    assert pair(NUMBERS, NUMBERS * np.float32(1.01)).hint == "the second is 1.01 times the first"
    assert pair(NUMBERS, NUMBERS + np.float32(0.25)).hint == "the second is the first plus 0.25"
    assert pair(NUMBERS[:30, :30], NUMBERS[:30, :30].T).hint == "the second is the first, transposed"
    turned = pair(NUMBERS, NUMBERS.T)
    assert (turned.explanation, turned.hint) == ("shape", "the second is the first, transposed")


def test_numbers_that_are_finite_on_one_side_only() -> None:
    broken = NUMBERS.copy()
    broken[0, 0] = np.nan
    found = pair(NUMBERS, broken)
    assert (found.explanation, found.non_finite, found.at) == ("real-difference", 1, (0, 0))
    assert pair(NUMBERS, broken, rtol=10, ulps=1e9).explanation == "real-difference"


def test_whole_numbers_have_no_rounding() -> None:
    assert pair(np.array([256, 3]), np.array([257, 3])).explanation == "real-difference"
    assert pair(np.array([256, 3]), np.array([256, 3], np.int16)).explanation == "same-values"
    assert pair(np.array([True]), np.array([False])).explanation == "real-difference"


def test_names_and_prefixes() -> None:
    a = {f"module.{n}": stored(NUMBERS) for n in ("w", "b", "only.here")}
    b = {n: stored(NUMBERS) for n in ("w", "b", "there")}
    found = compare(a, b)
    assert (found.stripped, [p.name for p in found.pairs]) == (("module.", ""), ["w", "b"])
    assert (found.first, found.second, found.explained) == (("only.here",), ("there",), False)
    assert compare(b, a).stripped == ("", "module.")
    same = compare(b, dict(b))
    assert same.explained
    assert same.worst is not None
    assert same.worst.explanation == "identical"
    assert not Tables(()).explained


def test_the_worst_pair_is_the_one_to_tell() -> None:
    a = {n: stored(NUMBERS) for n in "abc"}
    b = {"a": stored(NUMBERS), "b": stored(rounded(NUMBERS, "bfloat16").astype(np.float32)), "c": stored(NUMBERS * np.float32(1.5))}
    worst = compare(a, b).worst
    assert worst is not None
    assert worst.name == "c"


def test_nothing_but_ordered_dictionaries_and_tensors_is_needed(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.save(OrderedDict(w=torch.nn.Parameter(torch.ones(2))), tmp_path / "m.bin")
    assert read(tmp_path / "m.bin")["w"].array.tolist() == [1.0, 1.0]
