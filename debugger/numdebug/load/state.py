"""What a run of the program changes in its process, put back so that a second run starts like the first."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numdebug.observe.imports import when_imported

OURS = str(Path(__file__).resolve().parent.parent) + os.sep


class State:
    """Taken before the first run. What libraries hold is taken right after the program imports them, before it can change it."""

    def __init__(self) -> None:
        self._folder = Path.cwd()
        self._random = random.getstate()
        self._environment = dict(os.environ)
        self._libraries: dict[str, Callable[[], None]] = {}
        for name, taken in (("numpy", _numpy), ("jax", _jax), ("keras", _keras)):
            when_imported(name, lambda name=name, taken=taken: self._take(name, taken))  # type: ignore[misc]  # default-bound lambda

    def _take(self, name: str, taken: Callable[[Any], Callable[[], None]]) -> None:
        self._libraries[name] = taken(sys.modules[name])
        self._random = random.getstate()  # importing a library may draw numbers, and happens only once
        if name != "numpy":
            self._libraries["numpy"] = _numpy(sys.modules["numpy"])

    def restore(self, folder: Path) -> None:
        """Forget the program's own modules (those in `folder`); reset the current folder, environment, random numbers and settings."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if name == "__main__" or not file or not Path(file).is_relative_to(folder):
                continue
            if not file.startswith((OURS, sys.prefix, sys.base_prefix)) and "site-packages" not in file:
                del sys.modules[name]
        os.chdir(self._folder)
        os.environ.clear()
        os.environ.update(self._environment)
        for put_back in self._libraries.values():
            put_back()
        random.setstate(self._random)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.manual_seed(torch.Generator().initial_seed())  # what a fresh process starts with
            torch.set_default_dtype(torch.float32)
            torch.set_grad_enabled(True)


@contextmanager
def same_numbers() -> Iterator[None]:
    """Random numbers of Python and NumPy go on afterwards as if nothing had been drawn."""
    np: Any = sys.modules.get("numpy")
    python, numpy = random.getstate(), np.random.get_state() if np is not None else None
    try:
        yield
    finally:
        random.setstate(python)
        if np is not None:
            np.random.set_state(numpy)


def _numpy(np: Any) -> Callable[[], None]:
    """Its global random numbers, what it does about floating-point errors, and how it prints."""
    numbers, errors, printing = np.random.get_state(), np.geterr(), np.get_printoptions()

    def put_back() -> None:
        np.random.set_state(numbers)
        np.seterr(**errors)
        np.set_printoptions(**printing)

    return put_back


def _jax(jax: Any) -> Callable[[], None]:
    """Its switches: x64, the search for NaN, matmul precision and the rest. Random numbers are the program's own keys."""
    switches = dict(jax.config.values)

    def put_back() -> None:
        for name, value in switches.items():
            if jax.config.values[name] != value:
                jax.config.update(name, value)

    return put_back


def _keras(keras: Any) -> Callable[[], None]:
    """Its defaults, and what it keeps for the whole process: layer names, the seed. The backend cannot change."""
    kept = keras.config.floatx(), keras.config.epsilon(), keras.config.image_data_format()

    def put_back() -> None:
        keras.utils.clear_session(free_memory=False)
        keras.config.set_floatx(kept[0])
        keras.config.set_epsilon(kept[1])
        keras.config.set_image_data_format(kept[2])

    return put_back
