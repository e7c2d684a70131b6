"""The child's side of `numdebug compare`: makes both sides, holds them against each other, and journals what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numdebug import observe as observing
from numdebug.arithmetic import PRODUCTS, Arithmetic
from numdebug.comparing import calling, files, saved, stored
from numdebug.comparing.axes import AXES
from numdebug.comparing.calling import NotHere
from numdebug.comparing.compare import CannotCompare, Compared, compare
from numdebug.comparing.plan import Plan
from numdebug.comparing.programs import Failed, Programs, Stopped
from numdebug.comparing.removal import removed
from numdebug.comparing.sides import Output, Side
from numdebug.comparing.words import evidence, published
from numdebug.errors import UserError
from numdebug.evidence import Evidence
from numdebug.load.calls import Call
from numdebug.match import match
from numdebug.report.model import Comparison
from numdebug.run import CannotAsk


class Comparing:
    """One command."""

    def __init__(self, plan: Plan, journal: Any, deadline: Any) -> None:
        self.plan = plan
        self.journal = journal
        self.programs = Programs(plan, journal, deadline)
        self.found: list[Evidence] = []

    def run(self) -> None:
        """Both sides, and the verdict."""
        plan = self.plan
        self.journal.add("stage", name="run")
        if plan.arrays:
            self._files()
        elif plan.name is None and plan.other_path is not None and plan.other_name is None:
            self._scripts()
        elif plan.other_path is not None:
            self._two_calls()
        else:
            self._one_program()
        self.journal.add("stage", name="analyse")
        for diagnosis in match(self.found):
            self.journal.add("diagnosis", diagnosis)
        self.journal.add("matched")

    # -- saved arrays ------------------------------------------------------------------------------------------------

    def _files(self) -> None:
        plan = self.plan
        assert plan.other_path is not None and plan.other_given is not None
        tables = stored.compare(saved.read(Path(plan.path)), saved.read(Path(plan.other_path)), plan.ulps, plan.rtol, plan.atol)
        if not tables.pairs:
            raise CannotCompare(f"{plan.given} and {plan.other_given} have no array of the same name")
        found, notes = files.told(tables, plan.given, plan.other_given)
        extra = files.alone(tables, plan.given, plan.other_given)
        for comparison in (*found, *(c for c in (extra,) if c is not None)):
            self._add(comparison, None)
        for text in notes:
            self.journal.add("note", text=text)
        self.programs.counted(sum(p.size for p in tables.pairs))

    # -- two programs ------------------------------------------------------------------------------------------------

    def _scripts(self) -> None:
        plan = self.plan
        assert plan.other_path is not None
        a = self.programs.script(plan.path, plan.given, Path(plan.given).name)
        b = self.programs.script(plan.other_path, plan.other_given or "", Path(plan.other_given or "").name)
        if a.label == b.label:
            a.label, b.label = plan.given, plan.other_given or ""
        common = {o.name for o in a.outputs if o.named} & {o.name for o in b.outputs if o.named}
        if common:  # what is read has no name by which it could be told apart, but as many of a shape answer each other in order
            read = [Counter(o.array.shape for o in side.outputs if not o.named) for side in (a, b)]
            for side in (a, b):
                side.outputs = [o for o in side.outputs if o.named or read[0][o.array.shape] == read[1][o.array.shape]]
        if self.programs.trains:
            limits = "compared is their first step up to its loss, not gradients, updates and later steps"
            self.journal.add("note", text=f"the programs train: {limits}")
        self._say(compare(a, b, "programs"), False, (), _framework(a))

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _two_calls(self) -> None:
        plan = self.plan
        assert plan.other_path is not None
        module = self.programs.loaded(plan.path, plan.given, plan.name)
        call, framework = self.programs.call(module, plan.name)
        same = plan.other_path == plan.path
        other = module if same else self.programs.loaded(plan.other_path, plan.other_given or "", plan.other_name)
        second = self.programs.second(call, other, plan.other_name)
        labels = (f"{Path(plan.given).name}:{plan.name}", f"{Path(plan.other_given or '').name}:{plan.other_name}")
        caller = self.programs.caller(framework)
        a = caller.watched(call, labels[0])
        self._count(a)
        theirs = calling.framework_of(self.programs.guarded(second, None), second)
        b = (self.programs.caller(theirs).watched if theirs != "numpy" else caller.plain)(second, labels[1])
        self._say(compare(a, b, "programs"), False, (), framework)

    def _one_program(self) -> None:
        plan = self.plan
        wanted = plan.vary or [name for name, axis in AXES.items() if axis.usual]
        module = self.programs.loaded(plan.path, plan.given, plan.name)
        try:
            call, framework = self.programs.call(module, plan.name)
        except CannotCompare:
            if plan.name is not None:
                raise
            self._settings(wanted)
            return
        if framework == "torch" and "mode" not in wanted and calling.varying("torch").trains(call):
            call = calling.varying("torch").in_mode(call, False)
            how = "a copy in evaluation mode is compared (--vary mode compares both)"
            self.journal.add("note", text=f"{call.text} is in training mode; {how}")
        self.journal.add("guessed", text=call.text)
        caller = self.programs.caller(framework)
        base = caller.watched(call, "as it is")
        self._count(base)
        if base.run is None and framework != "numpy":
            raise CannotCompare(f"{call.text} computes nothing that could be observed")
        if not base.outputs:
            raise CannotCompare(f"{call.text} returns no array of floating-point numbers")
        for name in wanted:
            axis = AXES[name]
            try:
                if axis.scope == "predicted":
                    self._say(self._predicted(name, base), True, (), framework)
                else:
                    both = calling.varied(name, call, framework, plan.rows)
                    self._say(compare(*caller.sides(both), name), False, removed(name, call, both, caller, framework, plan.rows), framework)
            except (NotHere, CannotCompare, CannotAsk, Failed) as why:
                if plan.vary:
                    self.journal.add("note", text=f"{name} was not varied: {why}")

    def _settings(self, wanted: Sequence[str]) -> None:
        """A program without a model that could be called: run again with another setting."""
        base = self.programs.script(self.plan.path, self.plan.given, "as it is")
        framework = _framework(base)
        nothing = Call("", lambda: None)
        for name in wanted:
            try:
                if AXES[name].scope == "predicted":
                    self._say(self._predicted(name, base), True, (), framework)
                    continue
                if AXES[name].scope == "call" and name != "runs":
                    raise NotHere("name the function or model to call: PATH:NAME")
                both = calling.varied(name, nothing, framework)
                base.label = both.label_a
                again = self.programs.script(self.plan.path, self.plan.given, both.label_b, both.setting_b)
                self._say(compare(base, again, name), False, (), framework)
            except (NotHere, CannotCompare, CannotAsk, Failed) as why:
                if self.plan.vary:
                    self.journal.add("note", text=f"{name} was not varied: {why}")

    def _predicted(self, axis: str, base: Side) -> Compared:
        """What the recorded products would give elsewhere."""
        if base.run is None or not any(op.name in PRODUCTS for op in base.ops):
            raise NotHere("nothing is computed by a matrix product or convolution")
        how = Arithmetic(order=1) if axis == "sums" else Arithmetic(products=axis)  # type: ignore[arg-type]
        kept = [o for o in base.outputs if o.value is not None]
        again = base.run.recompute([o.value for o in kept if o.value is not None], how)
        outputs = [Output(o.name, again[o.value.id], o.dtype) for o in kept if o.value is not None and o.value.id in again]
        words = {"sums": "products summed in another order", "tf32": "with TF32 products", "tf32-truncated": "with TF32 products, cut off"}
        return compare(replace(base, label="as it is"), Side(words[axis], outputs), axis)

    def _count(self, side: Side) -> None:
        self.programs.counted(len(side.run.recording.ops) if side.run is not None else 1)

    # -- what was found ------------------------------------------------------------------------------------------------

    def _say(self, found: Compared, predicted: bool, removed_by: tuple[str, ...], framework: str) -> None:
        self._add(published(found, predicted, removed_by, framework), found)
        if found.missing:
            self.journal.add("note", text=f"not compared, as they are on one side only or of another shape: {', '.join(found.missing[:5])}")

    def _add(self, comparison: Comparison, found: Compared | None) -> None:
        if comparison.explanation != "identical" and not comparison.predicted:
            fact = evidence(comparison, f"E{len(self.found) + 1}", bool(found and found.parting is not None and found.parting.tried))
            self.found.append(fact)
            self.journal.add("evidence", fact)
            comparison = replace(comparison, evidence=fact.id)
        self.journal.add("comparison", comparison)


def _framework(side: Side) -> str:
    return side.run.recording.framework if side.run is not None and side.run.recording.framework in ("torch", "jax") else "numpy"


def observe(plan: dict[str, Any], journal: Any) -> Any:
    """Called by the child process; returns the deadline that it armed."""
    from numdebug.child import describe_environment
    from numdebug.deadline import Deadline

    deadline = Deadline(observing.Stop)
    comparing = Comparing(Plan(**plan), journal, deadline)
    try:
        comparing.run()
    except Stopped:  # the journal says why
        return deadline
    except (CannotCompare, NotHere, CannotAsk, Failed, UserError) as why:
        journal.add("unusable", text=str(why))
        journal.add("ended", how="returned")
    except observing.Stop as why:
        journal.add("ended", how="stopped", why=deadline.reason or str(why))
    else:
        journal.add("ended", how="returned")
    describe_environment(journal)
    return deadline


