"""One call of a program's model or function that can be made again and again, with changed arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from numdebug.load import arguments, frameworks, pure, values
from numdebug.load.arguments import Names


@dataclass(frozen=True)
class Call:
    """`text` announces it. `model`: the module or layer that is called, where it is one."""

    text: str
    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    model: Any = None
    names: tuple[str, ...] = ()  # of the positional arguments, where known

    def __call__(self) -> Any:
        return self.function(*self.args, **self.kwargs)

    def with_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        """The same function on other arguments."""
        return replace(self, args=args, kwargs=dict(kwargs))


def calls(module: ModuleType, name: str | None, given: Mapping[str, Any]) -> Iterator[Call]:
    """Ways to call what `name` names (or, without one, the file's models), best first. Raises UserError where there is no such name."""
    names = Names(values.public_values(module), values.own_functions(module), dict(given))
    if name is None:
        for model in names.models():
            yield from _of_model(model, names.values[model], names)
        return
    target = values.named(module, name)
    if values.is_module(target):
        yield from _of_model(name, target, names)
    elif isinstance(target, type):
        if not arguments.required(target):
            made = target()
            if values.is_module(made):
                yield from _of_model(f"{name}()", made, names)
    elif callable(target):
        if not arguments.required(target):
            yield Call(f"{name}()", target)
        else:
            found = arguments.for_function(target, names)
            if found is not None:
                yield Call(f"{name}({found.text})", target, found.args, found.kwargs, names=tuple(arguments.required(target)))


def _of_model(name: str, model: Any, names: Names) -> Iterator[Call]:
    for found in arguments.for_model(model, names):
        wanted = tuple(p.name for p in arguments.parameters(frameworks.forward(model)))
        kind = frameworks.model_kind(model)
        if kind == "linen":
            for text, _, state in pure.applications(name, model, found, names.values):
                yield Call(text, model.apply, (state, *found.args), found.kwargs, model, ("variables", *wanted))
            continue
        yield Call(f"{name}({found.text})", model, found.args, found.kwargs, model, wanted)
        if kind == "equinox" and not found.kwargs:  # its layers take one example; a batch goes through vmap
            yield Call(f"jax.vmap({name})({found.text})", _Mapped(model), found.args, {}, model, wanted)


class _Mapped:
    """jax.vmap over all arguments of a model."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, *args: Any) -> Any:
        return sys.modules["jax"].vmap(self.model)(*args)


def taking(call: Call, target: Any, text: str) -> Call | None:
    """`target` on the arguments of another call, where it takes as many."""
    wanted = arguments.required(target)
    given = (*call.args, *call.kwargs.values())
    if len(wanted) != len(given):
        return None
    return Call(f"{text}({', '.join(wanted)})", target, given, names=tuple(wanted))
