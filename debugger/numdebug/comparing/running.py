"""The child's side of `numdebug compare`: loads what is to be compared, makes both sides, and journals what was found."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from numdebug import observe as observing
from numdebug.arithmetic import PRODUCTS, Arithmetic
from numdebug.comparing import calling, files, saved, stored
from numdebug.comparing.axes import AXES
from numdebug.comparing.calling import Caller, NotHere, Varied
from numdebug.comparing.compare import CannotCompare, Compared, compare
from numdebug.comparing.sides import Output, Side, located
from numdebug.comparing.words import published
from numdebug.errors import UserError
from numdebug.evidence import Evidence, Number
from numdebug.load import calls, frameworks, inputs, values
from numdebug.load.calls import Call
from numdebug.load.inputs import invent
from numdebug.load.runner import Runner, Wishes
from numdebug.load.script import Script
from numdebug.load.state import State
from numdebug.match import match
from numdebug.report.model import Comparison
from numdebug.run import CannotAsk

REMOVED = 2.0**-20
"""A difference that shrinks by this much has gone: float64 rounds 2**-29 times as coarsely as float32, less what conditioning takes."""


ULPS = 16.0
"""Of saved arrays, at their largest element: of 118 benign pairs that differ (benchmarks/differences.py) the largest stood at 12."""


@dataclass
class Plan:
    """What is to be compared, as JSON. Paths are absolute; a path without a name is a script, or recorded arrays."""

    path: str
    given: str
    name: str | None = None
    other_path: str | None = None
    other_given: str | None = None
    other_name: str | None = None
    vary: list[str] = field(default_factory=list)
    rows: int | None = None
    args: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    timeout: float | None = 60.0
    arrays: bool = False  # both paths are files of saved arrays, for which these tolerances hold
    ulps: float = ULPS
    rtol: float = 0.0
    atol: float = 0.0


class Stopped(Exception):
    """The program did not come back; the journal says how it ended."""


class Failed(Exception):
    """A call of the program's code raised; the message says what."""


class Comparing:
    """One command."""

    def __init__(self, plan: Plan, journal: Any, deadline: Any) -> None:
        self.plan = plan
        self.journal = journal
        self.deadline = deadline
        self.state = State()
        self.found: list[Evidence] = []
        self.folder = Path(plan.path).parent
        self.seen = 0

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
        self._counted(sum(p.size for p in tables.pairs))

    # -- two programs ------------------------------------------------------------------------------------------------

    def _scripts(self) -> None:
        plan = self.plan
        assert plan.other_path is not None
        a = self._script(plan.path, plan.given, Path(plan.given).name)
        b = self._script(plan.other_path, plan.other_given or "", Path(plan.other_given or "").name)
        if a.label == b.label:
            a.label, b.label = plan.given, plan.other_given or ""
        common = {o.name for o in a.outputs if o.named} & {o.name for o in b.outputs if o.named}
        if common:  # what is read on the way has no name by which it could be told apart
            for side in (a, b):
                side.outputs = [o for o in side.outputs if o.named]
        self._say(compare(a, b, "programs"), False, (), _framework(a))

    def _script(self, path: str, given: str, label: str, setting: Any = None) -> Side:
        """A whole program (of one that trains, the first step), as one side."""
        folder = Path(path).parent
        self.state.restore(folder)
        watcher = observing.watch(folder=folder, journal=_Quiet(self.journal), options={"max_steps": 1, "record": True})
        script = Script(Path(path), given, tuple(self.plan.args), code=watcher.code)
        self.deadline.arm(self.plan.timeout, watcher.expire)
        runner = Runner(script, Wishes((), True), watcher, self.deadline, self.journal, observing.Stop)
        with setting() if setting is not None else nullcontext():
            runner.run()
        watcher.finish()
        self.seen += watcher.ops
        self.journal.add("observed", ops=self.seen, backward=watcher.saw_backward)
        if watcher.failed:
            raise Stopped
        module = sys.modules["__main__"]
        named = calling.floats(
            (name, array)
            for name, value in values.public_values(module).items()
            if not values.is_module(value) and not values.is_optimizer(value)
            for name, array in values.arrays(value, name)
        )
        best: Side | None = None
        for observer in watcher.observers:
            run = watcher.run(observer)
            if run is None:
                continue
            outputs = [o for o in located(run, named) if o.value is not None]
            known = {o.value.id for o in outputs if o.value is not None}
            read: Counter[tuple[int, ...]] = Counter()  # by shape: one more that is read on one side shifts those of its shape alone
            for sink in run.consumed():
                held = run.array(sink.value)
                if held is not None and sink.value.id not in known and sink.value.dtype.startswith(("float", "bfloat")):
                    read[held.shape] += 1
                    shape = f" of shape {held.shape}" if held.shape else ""
                    name = sink.name or f"value {read[held.shape]}{shape} that is read"
                    outputs.append(Output(name, held, sink.value.dtype, sink.value, named=bool(sink.name)))
            if best is None or len(outputs) > len(best.outputs):
                best = Side(label, outputs, run)
        if best is None or not best.outputs:
            raise CannotCompare(f"{given} computes nothing that it prints, returns or keeps under a name")
        return best

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _two_calls(self) -> None:
        plan = self.plan
        assert plan.other_path is not None
        module = self._loaded(plan.path, plan.given, plan.name)
        call = self._call(module, plan.name)
        same = plan.other_path == plan.path
        other = module if same else self._loaded(plan.other_path, plan.other_given or "", plan.other_name)
        second = self._second(call, other, plan.other_name, Path(plan.other_given or plan.given).name)
        labels = (f"{Path(plan.given).name}:{plan.name}", f"{Path(plan.other_given or '').name}:{plan.other_name}")
        framework = calling.framework_of(self._guarded(call, None), call)
        caller = self._caller(framework)
        a = caller.watched(call, labels[0])
        self._count(a)
        theirs = calling.framework_of(self._guarded(second, None), second)
        b = (self._caller(theirs).watched if theirs != "numpy" else caller.plain)(second, labels[1])
        self._say(compare(a, b, "programs"), False, (), framework)

    def _second(self, call: Call, module: ModuleType, name: str | None, file: str) -> Call:
        target: Any = module
        for part in (name or "").split("."):
            target = getattr(target, part, None)
        if target is not None and not isinstance(target, type):
            function = target if not values.is_module(target) else frameworks.forward(target)
            found = calls.taking(call, function, name or "")
            if found is not None and (values.is_module(target) or not values.is_module(call.model)):
                return replace(found, function=target)
        return self._call(module, name, call)

    def _one_program(self) -> None:
        plan = self.plan
        wanted = plan.vary or [name for name, axis in AXES.items() if axis.usual]
        module = self._loaded(plan.path, plan.given, plan.name)
        try:
            call = self._call(module, plan.name)
        except CannotCompare:
            if plan.name is not None:
                raise
            self._settings(wanted)
            return
        framework = calling.framework_of(self._guarded(call, None), call)
        self.journal.add("guessed", text=call.text)
        caller = self._caller(framework)
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
                    self._say(compare(*caller.sides(both), name), False, self._removed(name, call, both, caller, framework), framework)
            except (NotHere, CannotCompare, CannotAsk) as why:
                if plan.vary:
                    self.journal.add("note", text=f"{name} was not varied: {why}")

    def _settings(self, wanted: Sequence[str]) -> None:
        """A program without a model that could be called: run again with another setting."""
        base = self._script(self.plan.path, self.plan.given, "as it is")
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
                again = self._script(self.plan.path, self.plan.given, both.label_b, both.setting_b)
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

    def _removed(self, axis: str, call: Call, both: Varied, caller: Caller, framework: str) -> tuple[str, ...]:
        """What makes a benign difference go, of what was tried."""
        if axis not in ("rows", "order", "threads", "onednn", "compiled", "memory"):
            return ()
        before = self._left(both, caller)
        tries: list[tuple[str, Varied]] = []
        if not before:
            return ()
        if framework != "numpy" and calling.varying(framework).owns_its_models(call):
            wide = calling.varying(framework).in_format(call, "float64")
            tries.append(("float64", calling.varied(axis, wide, framework, self.plan.rows)))
        if framework == "torch" and axis != "threads":
            one = calling.varying("torch")
            tries.append(("one thread", replace(both, setting_a=lambda: one.threads(1), setting_b=lambda: one.threads(1))))
        if framework == "jax" and axis != "compiled":
            how = calling.varying("jax")
            tries.append(("jax.jit around the whole call", replace(both, a=how.compiled(both.a), b=how.compiled(both.b))))
        found = []
        for words, changed in tries:
            try:
                left = self._left(changed, caller)
            except Failed:  # this way cannot be had: it removes nothing
                continue
            if left <= REMOVED * before:
                found.append(f"{words} ({left:.1g} left)" if left else words)
        return tuple(found)

    @staticmethod
    def _left(both: Varied, caller: Caller) -> float:
        """The largest difference between both ways."""
        a, b = caller.plain(both.a, "", both.setting_a), caller.plain(both.b, "", both.setting_b)
        b.rows = both.rows
        return _largest(a, b)

    # -- the program ---------------------------------------------------------------------------------------------------

    def _loaded(self, path: str, given: str, name: str | None) -> ModuleType:
        """The file's module, executed; its `__main__` guard is not entered."""
        folder = Path(path).parent
        if self.seen or "__main__" not in sys.modules:
            self.state.restore(folder)
        watcher = observing.watch(folder=folder, journal=_Quiet(self.journal), options={"traced": 0})
        script = Script(Path(path), given, tuple(self.plan.args), name=name or "")
        module = script.prepare()
        self.deadline.arm(self.plan.timeout, watcher.expire)
        runner = Runner(script, Wishes(), watcher, self.deadline, self.journal, observing.Stop)
        came_back = runner.guarded(lambda: script.execute(module))
        watcher.finish()
        if not came_back:
            raise Stopped
        return module

    def _call(self, module: ModuleType, name: str | None, like: Call | None = None) -> Call:
        """The first way to call it that works."""
        given = {one.name: invent(one) for one in map(inputs.parse, self.plan.inputs)}
        for text in self.plan.inputs:
            self.journal.add("invented", text=str(inputs.parse(text)))
        if like is not None:
            given.update(zip(like.names, like.args, strict=False))
        tried: list[str] = []
        for call in calls.calls(module, name, given):
            try:
                result = self._guarded(call, None)
            except Failed as why:
                tried.append(f"{call.text} raised {why}")
                continue
            if calling.returned(result):
                return call
        what = name or "a model in the file"
        reason = f" ({tried[0]})" if tried else ""
        raise CannotCompare(f"{what} cannot be called with what the file defines{reason}; describe inputs with --input 'x=float32[64,784]'")

    def _guarded(self, work: Callable[[], Any], watcher: Any) -> Any:
        self.deadline.arm(self.plan.timeout, watcher.expire if watcher is not None else lambda: None)
        self.deadline.running = True
        try:
            return work()
        except Exception as why:
            first = str(why).splitlines()[0] if str(why) else ""
            raise Failed(f"{type(why).__name__}: {first}") from why
        finally:
            self.deadline.running = False

    def _caller(self, framework: str) -> Caller:
        return Caller(self.folder, _Quiet(self.journal), framework, self._guarded)

    def _count(self, side: Side) -> None:
        self._counted(len(side.run.recording.ops) if side.run is not None else 1)

    def _counted(self, ops: int) -> None:
        self.seen += ops
        self.journal.add("observed", ops=self.seen, backward=False)

    # -- what was found ------------------------------------------------------------------------------------------------

    def _say(self, found: Compared, predicted: bool, removed_by: tuple[str, ...], framework: str) -> None:
        self._add(published(found, predicted, removed_by, framework), found)
        if found.missing:
            self.journal.add("note", text=f"on one side only, and not compared: {', '.join(found.missing[:5])}")


    def _add(self, comparison: Comparison, found: Compared | None) -> None:
        if comparison.explanation != "identical" and not comparison.predicted:
            fact = _evidence(comparison, f"E{len(self.found) + 1}", bool(found and found.parting is not None and found.parting.tried))
            self.found.append(fact)
            self.journal.add("evidence", fact)
            comparison = replace(comparison, evidence=fact.id)
        self.journal.add("comparison", comparison)


class _Quiet:
    """What observers say of single steps is of no interest here; that they met an error of their own is."""

    def __init__(self, journal: Any) -> None:
        self.journal = journal

    def add(self, record: str, *args: Any, **data: Any) -> None:
        if record in ("failure", "note"):
            self.journal.add(record, *args, **data)


def _evidence(c: Comparison, number: str, tried: bool) -> Evidence:
    sites = {}
    if c.apart is not None:
        sites = {role: site for role, site in (("target", c.apart.site_b), ("other", c.apart.site_a)) if site is not None}
    return Evidence(
        "difference", "compare", number, site=sites.get("target") or sites.get("other"),
        numbers={
            "largest": Number(c.largest, None), "ulps": Number(c.ulps, "ulp"), "differing": Number(c.differing, "elements"),
            "size": Number(c.size, "elements"), "envelope": Number(c.envelope, None), "ratio": Number(c.ratio, None),
        },
        facts={
            "explanation": c.explanation, "explained": c.explained, "axis": c.axis, "a": c.a, "b": c.b, "format": c.format,
            "because": c.because, "op": c.apart.op if c.apart is not None else None, "what": c.apart.what if c.apart is not None else "",
            "proof": c.apart.proof if c.apart is not None else "", "cured": bool(c.apart is not None and c.apart.confirmed),
            "tried": tried, "output": c.output,
        },
        sites=sites,
    )  # fmt: skip


def _framework(side: Side) -> str:
    return side.run.recording.framework if side.run is not None and side.run.recording.framework in ("torch", "jax") else "numpy"


def _largest(a: Side, b: Side) -> float:
    worst = 0.0
    for one, two in zip(a.outputs, b.outputs, strict=False):
        other = two.array if b.rows is None else b.rows.of(two.array)
        if one.array.shape == other.shape and one.array.size:
            with np.errstate(all="ignore"):
                worst = max(worst, float(np.nanmax(np.abs(one.array.astype(np.float64) - other.astype(np.float64)))))
    return worst


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


