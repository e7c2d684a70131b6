"""What is called in files that call nothing themselves: real shapes of files, in process, with a watcher that only notes."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
import torch

from numdebug.load import guess
from numdebug.load.inputs import invent, parse
from numdebug.load.script import Script
from numdebug.load.source import never_mentioned_outside_functions

HEAD = "import torch\nfrom torch import nn\n"


class Notes:
    """A watcher that writes down what it is given."""

    def __init__(self) -> None:
        self.saw_forward = self.saw_backward = False
        self.outputs: list[str] = []
        self.losses: list[float] = []

    def returned(self, name: str, value: torch.Tensor) -> None:
        self.saw_forward = True
        self.outputs.append(name)

    def loss(self, value: torch.Tensor) -> None:
        value.backward()
        self.saw_forward = self.saw_backward = True
        self.losses.append(float(value.detach()))


@pytest.fixture
def tried(tmp_path: Path, monkeypatch):
    """Run a file's text and the guessed calls; returns (what was called, watcher, attempts)."""

    def run(text: str, given: dict | None = None, name: str | None = None):
        path = tmp_path / "model.py"
        path.write_text(HEAD + textwrap.dedent(text))
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        monkeypatch.setattr(sys, "argv", [])
        monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
        watcher, attempts = Notes(), guess.Attempts()
        module = Script(path, "model.py", name=name).run()
        guess.try_calls(module, watcher, lambda text: None, given or {}, name, attempts)
        return attempts.called, watcher, attempts

    return run


FILES = {
    "loss with model and inputs": (
        """
        model = nn.Linear(3, 2)
        inputs = {"x": torch.ones(4, 3)}
        def loss_fn(model, inputs, scale=2.0):
            return scale * model(inputs["x"]).pow(2).mean()
        """,
        "loss_fn(model, inputs), and backward on its result",
    ),
    "conventional names": (
        """
        net = nn.Linear(3, 2)
        x, y = torch.ones(4, 3), torch.ones(4, 2)
        def compute_loss(model, batch, labels):
            return (model(batch) - labels).abs().mean()
        """,
        "compute_loss(net, x, y), and backward on its result",
    ),
    "a model under its own name": (
        """
        pose_net = nn.Linear(3, 2)
        points = torch.ones(4, 3)
        def loss_fn(model, points):
            return model(points).mean()
        """,
        "loss_fn(pose_net, points), and backward on its result",
    ),
    "training step": (
        """
        model = nn.Linear(3, 2)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = torch.ones(4, 3), torch.zeros(4, 2)
        def train_step(model, optimizer, inputs, targets):
            return nn.functional.mse_loss(model(inputs), targets)
        """,
        "train_step(model, opt, x, y), and backward on its result",
    ),
    "batch made by a function": (
        """
        model = nn.Linear(3, 2)
        def make_batch():
            return torch.ones(4, 3)
        def loss_fn(model, batch):
            return model(batch).mean()
        """,
        "loss_fn(model, make_batch()), and backward on its result",
    ),
    "model, inputs and a library loss": (
        """
        model = nn.Linear(3, 2)
        x = torch.ones(4, 3)
        y = torch.tensor([0, 1, 0, 1])
        criterion = nn.CrossEntropyLoss()
        """,
        "model(x), then criterion(output, y), and backward on its result",
    ),
    "model, inputs and a written loss": (
        """
        model = nn.Linear(3, 2)
        inputs = torch.ones(4, 3)
        targets = torch.ones(4, 2)
        def my_loss(logits, targets):
            return (logits - targets).pow(2).mean()
        """,
        "model(inputs), then my_loss(output, targets), and backward on its result",
    ),
    "one unconventional tensor": ("model = nn.Linear(3, 2)\nhidden_things = torch.ones(4, 3)\n", "model(hidden_things)"),
    "forward's own names": (
        """
        class Net(nn.Module):
            def forward(self, coords, value):
                return coords * value
        value = torch.ones(3)
        coords = torch.ones(3)
        net = Net()
        """,
        "net(coords, value)",
    ),
    "dictionary": (
        """
        class Net(nn.Module):
            def forward(self, ids=None, mask=None):
                return ids * mask
        model = Net()
        batch = dict(ids=torch.ones(3), mask=torch.ones(3))
        """,
        "model(**batch)",
    ),
    "tuple with the target last": (
        """
        model = nn.Linear(3, 2)
        batch = (torch.ones(4, 3), torch.tensor([0, 1, 0, 1]))
        loss_fn = nn.CrossEntropyLoss()
        """,
        "model(*batch[:1]), then loss_fn(output, target), and backward on its result",
    ),
    "data loader": (
        """
        from torch.utils.data import DataLoader, TensorDataset
        model = nn.Linear(3, 2)
        loader = DataLoader(TensorDataset(torch.ones(8, 3), torch.zeros(8, 2)), batch_size=4)
        criterion = nn.MSELoss()
        """,
        "model(*next(iter(loader))[:1]), then criterion(output, target), and backward on its result",
    ),
    "output with a loss": (
        """
        from types import SimpleNamespace
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 2)
            def forward(self, x, labels=None):
                return SimpleNamespace(loss=self.layer(x).sum(), logits=None)
        model = Net()
        x = torch.ones(4, 3)
        """,
        "model(x), and backward on its result",
    ),
    "whole before part": (
        """
        encoder = nn.Linear(3, 3)
        head = nn.Linear(3, 2)
        classifier_ = nn.Sequential(encoder, head)
        x = torch.ones(4, 3)
        """,
        "classifier_(x)",
    ),
    "plain function": (
        """
        def attention(q, k):
            return torch.softmax(q @ k.T, dim=-1)
        q = torch.ones(4, 3, requires_grad=True)
        k = torch.ones(4, 3)
        """,
        "attention(q, k)",
    ),
    "model class": ("class Net(nn.Linear):\n    def __init__(self):\n        super().__init__(3, 2)\nx = torch.ones(4, 3)\n", "Net()(x)"),
    "last resort": ("def fit():\n    return nn.Linear(3, 2)(torch.ones(4, 3)).mean()\n", "fit(), and backward on its result"),
}


@pytest.mark.parametrize("title", FILES)
def test_the_right_call_is_found(tried, title):
    text, call = FILES[title]
    called, watcher, attempts = tried(text)
    assert called == [call], attempts.failed
    assert watcher.losses or watcher.outputs


NOTHING = {
    "no inputs": "model = nn.Linear(3, 2)\n",
    "paths are never passed": "def loss_fn(path):\n    raise SystemExit\npath = '/etc/passwd'\n",
    "imported functions are not the file's own": "from torch.nn.functional import mse_loss as loss_fn\n",
    "functions that need more": "def loss_fn(model, inputs, weight_table):\n    return 0\nmodel = nn.Linear(3, 2)\n",
}


@pytest.mark.parametrize("title", NOTHING)
def test_nothing_is_called_without_values(tried, title):
    called, watcher, _attempts = tried(NOTHING[title])
    assert called == []
    assert not watcher.saw_forward


def test_a_call_that_does_not_fit_is_noted_and_the_next_one_tried(tried):
    called, _, attempts = tried("""
        net = nn.Linear(5, 2)
        x = torch.ones(4, 3)
        frames = torch.ones(4, 5)
    """)
    assert called == ["net(frames)"]
    assert [text for text, _ in attempts.failed] == ["net(x)"]


def test_a_loss_without_gradient_is_an_output(tried):
    called, watcher, _ = tried("def loss_fn(x):\n    return x.mean()\nx = torch.ones(3)\n")
    assert called == ["loss_fn(x)"]
    assert watcher.outputs == ["loss_fn"]


def test_an_invented_input_goes_to_the_named_model_class(tried):
    wanted = parse("x=float32[4,3]")
    called, _watcher, _ = tried(
        "class Net(nn.Linear):\n    def __init__(self):\n        super().__init__(3, 2)\n", {"x": invent(wanted)}, "Net"
    )
    assert called == ["Net()(x)"]
    assert str(wanted) == "x=float32[4,3] (standard normal values, seed 0)"


def test_invented_inputs_are_the_same_every_time():
    wanted = parse("ids=int64[4,16]<1000")
    assert torch.equal(invent(wanted), invent(wanted))
    assert invent(wanted).max() < 1000
    assert invent(parse("h=bfloat16[2]")).dtype is torch.bfloat16


def test_whether_main_is_called_by_the_file_itself():
    never = never_mentioned_outside_functions
    assert never("def main(): pass", "main")
    assert never("def main(): pass\ndef cli(): main()", "main")
    assert not never("def main(): pass\nif __name__ == '__main__':\n    main()", "main")
    assert not never("import fire\ndef main(): pass\nfire.Fire(main)", "main")
