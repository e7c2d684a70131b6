"""Where the recorded step cannot be computed again, repairs are tried in the program: which ones, in what order, and what decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from numdebug.confirm import confirm
from numdebug.fixes import write_together
from numdebug.patching import patched
from numdebug.recording import Recording, Sink, Site, Step
from numdebug.report.model import Diagnosis, Repair
from numdebug.run import CannotAsk
from numdebug.trials import RUNS, SUSPECTS, Trial, by_program


class Unanswering:
    """A run that cannot be computed again."""

    def __init__(self, failed: bool = True) -> None:
        self.recording = Recording(sinks=[Sink("loss", "loss", 0)] if failed else [], steps=[Step(0, 2.0), Step(1, 4.0)])

    def again(self):
        raise CannotAsk("JAX programs are run again as a whole")


def suspect(line: int, form: str = "clamp_argument", kind: str = "rewrite", **numbers) -> Diagnosis:
    site = Site("model.py", line, 1, line, 5)
    repair = Repair(form, kind, f"repair line {line}", {"target": site}, {"target": 0}, numbers or {"lo": 1e-6})
    return Diagnosis(f"bug-{line}", "a bug", "error", 0.5, "because", site, repair=repair)


def outcome(repair: Repair, finite: bool, losses: tuple[float, ...] = (2.0, 1.0)) -> Trial:
    return Trial(finite, len(losses), losses[0], losses[-1], f"with {repair.summary}", repair, losses=tuple(enumerate(losses)))


class Program:
    """Cured by the repair of these lines; remembers what was tried."""

    def __init__(self, *lines: int, losses: tuple[float, ...] = (2.0, 1.0)) -> None:
        self.lines, self.losses = set(lines), losses
        self.tried: list[tuple[int, ...]] = []

    def __call__(self, repair):
        every = repair if isinstance(repair, tuple) else (repair,)
        self.tried.append(tuple(sorted(r.sites["target"].line for r in every)))
        return outcome(every[0], self.lines <= set(self.tried[-1]), self.losses)


def tried(diagnoses, program, failed=True, before=((0, 2.0),)):
    return by_program(diagnoses, [], program, failed, before)


def test_the_first_that_cures_is_confirmed_and_ends_the_search():
    program = Program(7)
    first, second, third = tried([suspect(3), suspect(7), suspect(9)], program)
    assert [first.confirmed, second.confirmed, third.confirmed] == ["no", "yes", "not-tried"]
    assert program.tried == [(3,), (7,)]
    assert "all 2 steps are finite, and the loss goes from 2 to 1" in second.confirmed_why
    assert "another suspect" in third.confirmed_why


def test_other_forms_of_a_repair_are_tried_too():
    divisor = suspect(4, "guard_divisor", mode="clamp", eps=1e-8)
    found = by_program([divisor], [], lambda r: outcome(r, r.numbers["mode"] == "where"), True, ())
    assert found[0].confirmed == "yes" and found[0].repair.numbers["mode"] == "where"


def test_no_more_than_the_first_suspects_and_so_many_runs():
    program = Program(99)
    found = tried([suspect(n) for n in range(1, 9)], program)
    assert {d.confirmed for d in found[:SUSPECTS]} == {"no"} and {d.confirmed for d in found[SUSPECTS:]} == {"not-tried"}
    assert "too many suspects" in found[-1].confirmed_why
    assert len(program.tried) <= RUNS


def test_the_smallest_set_of_lines_where_no_single_one_cures():
    found = tried([suspect(3), suspect(5), suspect(7)], Program(3, 7))
    assert [d.confirmed for d in found] == ["yes", "no", "yes"]
    assert "lines 3 and 7 repaired together" in found[0].confirmed_why


@pytest.mark.parametrize(("first", "verdict"), [(2.0000004, "yes"), (2.5, "no")])
def test_another_form_of_the_same_function_has_to_give_the_same_first_loss(first: float, verdict: str):
    (found,) = tried([suspect(3, "log_softmax", dim=1)], Program(3, losses=(first, 1.0)))
    assert found.confirmed == verdict
    assert ("agrees with the program as written to 2.0e-07" in found.confirmed_why) is (verdict == "yes")


def test_a_guarded_log_may_change_the_loss():
    (found,) = tried([suspect(3, "log_softmax", dim=1, guards=[4])], Program(3, losses=(2.5, 1.0)))
    assert found.confirmed == "yes"


def test_a_line_that_leaves_the_loss_rising_does_not_cure_a_rate_that_is_too_high():
    line, rate = suspect(3), suspect(9, "learning_rate", "setting", factor=0.1)

    def program(repair):
        return outcome(repair, True, (2.0, 0.5) if repair.form == "learning_rate" else (2.0, 50.0))

    found = by_program([line, rate], [], program, True, ())
    assert [d.confirmed for d in found] == ["no", "yes"]


def test_a_change_that_cannot_be_written_is_not_tried():
    found = by_program([suspect(3), replace(suspect(5), repair=None)], [], lambda _: None, True, ())
    assert [d.confirmed for d in found] == ["not-tried", "not-tried"]
    assert "could not be written" in found[0].confirmed_why


def test_a_log_whose_softmax_serves_others_is_kept_above_zero():
    def program(repair):
        return outcome(repair, True) if repair.form == "clamp_argument" else None

    (found,) = by_program([suspect(3, "log_softmax", dim=1)], [], program, True, ())
    assert found.confirmed == "yes" and found.repair.form == "clamp_argument"
    assert "keeps the probability above 0" in found.fix.summary


def test_a_suspicion_without_a_failure_is_only_told_when_a_lower_rate_helps():
    rate = replace(suspect(9, "learning_rate", "setting", factor=0.1), bug="learning-rate-divergence")
    assert confirm(Unanswering(failed=False), [rate], [], lambda r: outcome(r, True, (2.0, 1.9))) == []
    assert confirm(Unanswering(failed=False), [rate], [], lambda r: outcome(r, True, (2.0, 0.1)))[0].confirmed == "yes"


def test_several_repairs_go_into_one_diff(tmp_path: Path):
    (tmp_path / "model.py").write_text("import jax.numpy as jnp\n\n\ndef f(x, y):\n    a = jnp.log(x)\n    return a + jnp.sqrt(y)\n")
    log = Repair("clamp_argument", "rewrite", "", {"target": Site("model.py", 5, 9, 5, 19)}, {}, {"lo": 1e-6})
    root = Repair("clamp_argument", "rewrite", "", {"target": Site("model.py", 6, 16, 6, 27)}, {}, {"lo": 0.0})
    diff = write_together([log, root], tmp_path)
    (text,) = patched(diff, tmp_path).values()
    assert "jnp.log(jnp.maximum(x, 1e-6))" in text and "jnp.sqrt(jnp.maximum(y, 0.0))" in text
    assert write_together([log, replace(log, numbers={"lo": 0.5})], tmp_path) is None
