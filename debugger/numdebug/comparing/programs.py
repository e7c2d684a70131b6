"""The user's programs as sides of a comparison: run whole, or loaded so that something in them can be called again and again."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from numdebug import observe as observing
from numdebug.comparing import calling
from numdebug.comparing.calling import Caller
from numdebug.comparing.compare import CannotCompare
from numdebug.comparing.plan import Plan
from numdebug.comparing.sides import FLOATS, Output, Side, located
from numdebug.load import calls, frameworks, inputs, values
from numdebug.load.calls import Call
from numdebug.load.inputs import invent
from numdebug.load.runner import Runner, Wishes
from numdebug.load.script import Script
from numdebug.load.state import State


class Stopped(Exception):
    """The program did not come back; the journal says how it ended."""


class Failed(Exception):
    """A call of the program's code raised; the message says what."""


class Programs:
    """Runs the user's code under the time limit. `seen`: operations so far."""

    def __init__(self, plan: Plan, journal: Any, deadline: Any) -> None:
        self.plan = plan
        self.journal = journal
        self.deadline = deadline
        self.state = State()
        self.folder = Path(plan.path).parent
        self.ran = False
        self.trains = False  # a program was run up to the end of its first training step
        self.seen = 0

    def counted(self, ops: int) -> None:
        """So many operations more."""
        self.seen += ops
        self.journal.add("observed", ops=self.seen, backward=False)

    def script(self, path: str, given: str, label: str, setting: Any = None) -> Side:
        """A whole program (of one that trains, the first step), as one side."""
        folder = Path(path).parent
        if self.ran:
            self.state.restore(folder)
        self.ran = True
        watcher = observing.watch(folder=folder, journal=Quiet(self.journal), options={"max_steps": 1, "record": True})
        script = Script(Path(path), given, tuple(self.plan.args), code=watcher.code)
        self.deadline.arm(self.plan.timeout, watcher.expire)
        runner = Runner(script, Wishes((), True), watcher, self.deadline, self.journal, observing.Stop)
        with setting() if setting is not None else nullcontext():
            runner.run()
        watcher.finish()
        self.counted(watcher.ops)
        self.trains = self.trains or watcher.saw_backward
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
                if held is not None and sink.value.id not in known and sink.value.dtype.startswith(FLOATS):
                    read[held.shape] += 1
                    shape = f" of shape {held.shape}" if held.shape else ""
                    name = sink.name or f"value {read[held.shape]}{shape} that is read"
                    outputs.append(Output(name, held, sink.value.dtype, sink.value, named=bool(sink.name)))
            if best is None or len(outputs) > len(best.outputs):
                best = Side(label, outputs, run)
        if best is None or not best.outputs:
            raise CannotCompare(f"{given} computes nothing that it prints, returns or keeps under a name")
        return best

    def second(self, call: Call, module: ModuleType, name: str | None) -> Call:
        """`name` of the other side, on the arguments of the first side's call where it takes as many."""
        target: Any = module
        for part in (name or "").split("."):
            target = getattr(target, part, None)
        if target is not None and not isinstance(target, type):
            function = target if not values.is_module(target) else frameworks.forward(target)
            found = calls.taking(call, function, name or "")
            if found is not None and (values.is_module(target) or not values.is_module(call.model)):
                return self._fitting(replace(found, function=target))
        return self.call(module, name, call)[0]

    def _fitting(self, call: Call) -> Call:
        """With arguments as NumPy arrays where it does not take those of the other side's framework."""
        try:
            self.guarded(call, None)
        except Failed:
            plain = call.with_arguments(tuple(calling.as_numpy(a)[0] if values.is_array(a) else a for a in call.args), call.kwargs)
            try:
                self.guarded(plain, None)
            except Failed:
                return call
            return plain
        return call

    def loaded(self, path: str, given: str, name: str | None) -> ModuleType:
        """The file's module, executed; its `__main__` guard is not entered."""
        folder = Path(path).parent
        if self.ran:
            self.state.restore(folder)
        self.ran = True
        watcher = observing.watch(folder=folder, journal=Quiet(self.journal), options={"traced": 0})
        script = Script(Path(path), given, tuple(self.plan.args), name=name or "")
        module = script.prepare()
        self.deadline.arm(self.plan.timeout, watcher.expire)
        runner = Runner(script, Wishes(), watcher, self.deadline, self.journal, observing.Stop)
        came_back = runner.guarded(lambda: script.execute(module))
        watcher.finish()
        if not came_back:
            raise Stopped
        return module

    def call(self, module: ModuleType, name: str | None, like: Call | None = None) -> tuple[Call, str]:
        """The first way to call it that works, and whose arrays it gives."""
        given = {one.name: invent(one) for one in map(inputs.parse, self.plan.inputs)}
        for text in self.plan.inputs:
            self.journal.add("invented", text=str(inputs.parse(text)))
        if like is not None:
            given.update(zip(like.names, like.args, strict=False))
        tried: list[str] = []
        for call in calls.calls(module, name, given):
            try:
                result = self.guarded(call, None)
            except Failed as why:
                tried.append(f"{call.text} raised {why}")
                continue
            if calling.returned(result):
                return call, calling.framework_of(result, call)
            raise CannotCompare(f"{call.text} returns no array of floating-point numbers")
        what = name or "a model in the file"
        reason = f" ({tried[0]})" if tried else ""
        raise CannotCompare(f"{what} cannot be called with what the file defines{reason}; describe inputs with --input 'x=float32[64,784]'")

    def guarded(self, work: Callable[[], Any], watcher: Any) -> Any:
        """Run user code. Raises Failed where that raises."""
        self.deadline.arm(self.plan.timeout, watcher.expire if watcher is not None else lambda: None)
        self.deadline.running = True
        try:
            return work()
        except Exception as why:
            first = str(why).splitlines()[0] if str(why) else ""
            raise Failed(f"{type(why).__name__}: {first}") from why
        finally:
            self.deadline.running = False

    def caller(self, framework: str) -> Caller:
        """Makes calls with that framework under observation."""
        return Caller(self.folder, Quiet(self.journal), framework, self.guarded)


class Quiet:
    """What observers say of single steps is of no interest here; that they met an error of their own is."""

    def __init__(self, journal: Any) -> None:
        self.journal = journal

    def add(self, record: str, *args: Any, **data: Any) -> None:
        """Passed on, or not."""
        if record in ("failure", "note"):
            self.journal.add(record, *args, **data)
