"""Naive forms are found in many spellings, and stable spellings are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

from numdebug.observe.torch.observer import TorchObserver  # noqa: E402
from numdebug.observe.torch.torchrun import TorchRun  # noqa: E402
from numdebug.probing import probes  # noqa: E402

X = torch.linspace(-3, 3, 20).reshape(4, 5)
Y = torch.tensor([0, 3, 1, 4])
ONE_HOT = F.one_hot(Y, 5).float()


class NoJournal:
    def add(self, *_: object, **__: object) -> None: ...


def forms(function, *inputs) -> list[str]:
    """Names of the naive forms in a recording of one call."""
    observer = TorchObserver(Path(__file__).parent, NoJournal(), {})
    try:
        observer.returned("result", function(*inputs))
    finally:
        observer.finish()
    return [fact["form"] for fact in probes()["stable_ops"].measure(TorchRun(observer, {}))]


def by_hand(x):
    e = x.exp()
    return e / e.sum(1, keepdim=True)


def shifted(x):
    e = (x - x.max(1, keepdim=True).values).exp()
    return e / e.sum(1, keepdim=True)


NAIVE = {
    "softmax": [
        by_hand,
        lambda x: torch.div(e := torch.exp(x), torch.sum(e, dim=1)[:, None]),
        lambda x: (e := x.exp()) / (e.sum(1, keepdim=True) + 1e-6),
        lambda x: ((e := x.double().exp()) / e.sum(-1, keepdim=True)).float(),
    ],
    "log-of-softmax": [
        lambda x: torch.softmax(x, 1).log(),
        lambda x: -torch.log(F.softmax(x, dim=1)[torch.arange(4), Y]).mean(),
        lambda x: -(ONE_HOT * torch.log(x.softmax(1))).sum(),
        lambda x: -torch.log((ONE_HOT * x.softmax(1)).sum(1)),
        lambda x: torch.log(torch.softmax(x, 1) + 1e-30),
        lambda x: torch.log(shifted(x)),
        lambda x: torch.log(torch.softmax(x, 1).gather(1, Y[:, None]).squeeze(1)),
    ],
    "log-of-sigmoid": [
        lambda x: torch.log(torch.sigmoid(x)),
        lambda x: torch.log(1 - torch.sigmoid(x)),
        lambda x: torch.log1p(-torch.sigmoid(x)),
        lambda x: torch.log(1 / (1 + torch.exp(-x))),
        lambda x: ((e := x.exp()) / (1 + e)).log(),
    ],
    "logsumexp": [
        lambda x: torch.log(torch.exp(x).sum(1)),
        lambda x: torch.exp(x).mean(1).log(),
        lambda x: torch.log(torch.sum(torch.exp(x / 0.1), dim=-1) + 1e-12),
        lambda x: torch.log(torch.exp(x) @ torch.ones(5, 2)),
    ],
    "softplus": [lambda x: torch.log(1 + torch.exp(x)), lambda x: torch.exp(x).log1p(), lambda x: torch.log(x.exp() + 1.0)],
    "log-of-product": [lambda x: x.abs().prod(1).log(), lambda x: torch.log(torch.cumprod(x.sigmoid(), 1))],
    "root-of-squares": [
        lambda x: (x**2).sum(1).sqrt(),
        lambda x: torch.sqrt((x * x).sum() + 1e-12),
        lambda x: x.square().mean(1) ** 0.5,
        lambda x: x.norm(),
    ],
}
STABLE = [
    shifted,
    lambda x: x.softmax(1),
    lambda x: x.log_softmax(1),
    lambda x: F.cross_entropy(x, Y),
    lambda x: torch.logsumexp(x, 1),
    lambda x: (m := x.amax(1, keepdim=True)) + (x - m).exp().sum(1, keepdim=True).log(),
    lambda x: F.logsigmoid(x),
    lambda x: F.binary_cross_entropy_with_logits(x, ONE_HOT),
    lambda x: F.softplus(x),
    lambda x: torch.logaddexp(x, torch.zeros(())),
    lambda x: x.abs().log().sum(1),
    lambda x: torch.hypot(x, x),
    lambda x: torch.log(torch.sigmoid(x).sum() + torch.ones(4, 5)),
    lambda x: x.exp() / 7.0,
    lambda x: torch.log(1 + x.abs()),
    lambda x: torch.log(x.softmax(1).mean(0)),
]


@pytest.mark.parametrize(("form", "spelling"), [(form, i) for form, spellings in NAIVE.items() for i in range(len(spellings))])
def test_naive(form, spelling):
    assert form in forms(NAIVE[form][spelling], X)


@pytest.mark.parametrize("spelling", range(len(STABLE)))
def test_stable(spelling):
    assert forms(STABLE[spelling], X) == []


def test_stable_softplus_by_hand():
    assert forms(lambda x: torch.log1p(torch.exp(-x.abs())) + x.relu(), X) == []


@pytest.mark.parametrize("form", [form for form in NAIVE if form != "root-of-squares"])
def test_found_again_where_a_gradient_is_recorded(form):
    def trained(x):
        w = torch.ones(5, requires_grad=True)
        loss = NAIVE[form][0](x * w).sum()
        loss.backward()
        return loss.detach()

    assert form in forms(trained, X)
