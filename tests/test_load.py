"""Programs run as Python would run them: arguments, imports, data, workers, `__main__`."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

TRAIN = """
def train(scale=1.0):
    import torch
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        loss = model(torch.ones(4, 3) * scale).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.fixture
def program(tmp_path: Path, numdebug):
    """Write files and diagnose the first; returns the report, after checking that the program itself was content."""

    def run(files: dict[str, str], *args: str, name: str | None = None, options: tuple[str, ...] = ()):
        for file, text in files.items():
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(textwrap.dedent(text))
        target = next(iter(files)) + (f":{name}" if name else "")
        said = numdebug("diagnose", target, "--format", "json", *options, "--", *args)
        assert said.code == 0, said.out + said.err
        return said.report, said.err

    return run


def test_main_module_argv_and_folder_are_the_users(program):
    text = (
        TRAIN
        + """
import __main__, argparse, os, pickle, sys
from dataclasses import dataclass
from pathlib import Path

@dataclass
class Config:
    lr: float = 0.1

assert __name__ == "__main__" and __main__.train is train and __spec__ is None and __package__ is None
assert sys.argv == ["model.py", "--epochs", "3"], sys.argv
assert Path(sys.path[0]) == Path(__file__).parent and Path(__file__).is_absolute()
assert Path("data.txt").read_text() == "ok"
assert pickle.loads(pickle.dumps(Config(2.0))) == Config(2.0)
assert not any(m in sys.modules for m in ("rich", "click.testing"))
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
assert parser.parse_args().epochs == 3
if __name__ == "__main__":
    train()
"""
    )
    report, _ = program({"model.py": text, "data.txt": "ok"}, "--epochs", "3")
    assert report["program"]["observed"]["steps"] == 3
    assert report["program"]["observed"]["backward"] is True
    assert report["program"]["observed"]["guessed"] == []
    assert report["program"]["frameworks"] == ["torch"]


def test_files_beside_it_and_relative_imports(program):
    report, _ = program(
        {
            "pkg/train.py": "from .steps import train\nfrom .deep.more import scale\nif __name__ == '__main__':\n    train(scale)\n",
            "pkg/__init__.py": "",
            "pkg/steps.py": TRAIN,
            "pkg/deep/__init__.py": "",
            "pkg/deep/more.py": "from ..steps import train\nscale = 2.0\n",
        }
    )
    assert report["program"]["observed"]["steps"] == 3
    report, _ = program({"flat.py": "from helper import train\ntrain()\n", "helper.py": TRAIN, "json.py": "raise RuntimeError('shadowed')"})
    assert report["program"]["observed"]["steps"] == 3


def test_a_main_that_the_file_never_calls(program):
    report, err = program({"model.py": TRAIN + "\ndef main():\n    train()\n"})
    assert report["program"]["observed"]["guessed"] == ["main()"]
    assert report["program"]["observed"]["steps"] == 3
    assert "calling main()" in err


def test_no_call_refuses_what_the_program_does_not_do(tmp_path, numdebug):
    (tmp_path / "model.py").write_text(TRAIN + "\ndef main():\n    train()\n")
    said = numdebug("diagnose", "model.py", "--no-call")
    assert said.code == 4
    assert "refused (--no-call)" in said.out


def test_a_named_function_is_called_and_the_guard_is_not_entered(program):
    text = """
        import torch

        def score(x):
            return x.exp().mean()

        x = torch.ones(3, requires_grad=True)
        if __name__ == "__main__":
            1 / 0
        """
    report, _ = program({"model.py": text}, name="score")
    assert report["program"]["observed"]["guessed"] == ["score(x), and backward on its result"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loader_workers(program, method):
    text = f"""
import torch
from torch.utils.data import DataLoader, Dataset

class Ones(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return torch.ones(3)

if __name__ == "__main__":
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(Ones(), batch_size=4, num_workers=1, multiprocessing_context="{method}"):
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
"""
    report, _ = program({"model.py": text})
    assert report["program"]["observed"]["steps"] == 2


def test_exit_handlers_run_and_sys_exit_zero_is_a_normal_end(program, tmp_path):
    text = (
        TRAIN
        + "\nimport atexit, sys\nfrom pathlib import Path\natexit.register(lambda: Path('bye').write_text(''))\ntrain()\nsys.exit(0)\n"
    )
    report, _ = program({"model.py": text})
    assert (tmp_path / "bye").exists()
    assert report["program"]["observed"]["stopped_because"] == "the program ended"


def test_max_steps(program):
    report, _ = program({"model.py": TRAIN + "\ntrain()\n"}, options=("--max-steps", "2"))
    assert report["program"]["observed"]["steps"] == 2
