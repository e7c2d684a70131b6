"""A second run of a program starts like the first: settings, random numbers, and files that a repair changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from numdebug.load.script import Script

PROGRAM = """\
import os, random, sys
from pathlib import Path
from numdebug.load.state import State
state = State()
os.environ["KERAS_BACKEND"] = "jax"
import jax, keras, numpy as np
import jax.numpy as jnp

def program():
    said = [random.random(), float(np.random.rand()), str(jnp.arange(2.0).dtype), np.geterr(), np.get_printoptions()["precision"]]
    said += [keras.config.floatx(), keras.layers.Dense(2).name, float(keras.random.uniform(())), jax.config.jax_debug_nans]
    keras.utils.set_random_seed(3)
    said += [float(keras.random.uniform(())), float(np.random.rand())]
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_debug_nans", True)
    np.seterr(all="raise")
    np.set_printoptions(precision=2)
    keras.config.set_floatx("float64")
    return said

first = program()
state.restore(Path("/nowhere"))
second = program()
assert first == second, (first, second)
print("the same")
"""


def test_settings_and_random_numbers_of_every_library_are_put_back(tmp_path: Path):
    (tmp_path / "p.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "p.py"], cwd=tmp_path, capture_output=True, text=True, env={**os.environ}, check=False)
    assert done.stdout.strip() == "the same", done.stderr


def test_a_repair_in_an_imported_file_is_run(tmp_path: Path, monkeypatch):
    (tmp_path / "model.py").write_text("import helper_of_model\nanswer = helper_of_model.value\n")
    helper = tmp_path / "helper_of_model.py"
    helper.write_text("value = 1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    for texts, answer in (({}, 1), ({helper: "value = 2\n"}, 2), ({}, 1)):
        monkeypatch.delitem(sys.modules, "helper_of_model", raising=False)
        before = sys.modules["__main__"]
        module = Script(tmp_path / "model.py", "model.py", texts=texts).run()
        sys.modules["__main__"] = before
        assert module.answer == answer
    assert helper.read_text() == "value = 1\n"
