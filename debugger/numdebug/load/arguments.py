"""Find arguments for a call among the file's module-level values: by name, by convention, then by what is left."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from numdebug.load import frameworks
from numdebug.load import values as v

MAKERS = ("make_", "get_", "build_", "create_", "sample_", "")
BATCHES = ("batch", "make_batch", "get_batch", "sample_batch")


@dataclass
class Call:
    """Arguments for one call, the text that announces it, and the target that came along with the inputs."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    target: Any = None


class Names:
    """The file's module-level values, asked for by the name of a parameter."""

    def __init__(self, values: dict[str, Any], functions: dict[str, Any], given: dict[str, Any]) -> None:
        self.values = {**{k: x for k, x in values.items() if k not in given}, **given}
        self.functions = functions
        self.given = given

    def find(self, name: str) -> str | None:
        """The name of the value for parameter `name`: the same, a conventional one of the same group, or one that can be made."""
        if name in self.values and v.may_be_passed(self.values[name]):
            return name
        for group in v.GROUPS:
            if name in group or name.lower() in group:
                hit = next((n for n in group if self._fits(group, n)), None)
                return hit or (self._only_model() if group is v.MODEL else None) or self.maker(name)
        return self.maker(name)

    def _fits(self, group: tuple[str, ...], name: str) -> bool:
        value = self.values.get(name)
        if group is v.MODEL:
            return v.is_model(value)
        if group in (v.INPUT, v.TARGET):
            return v.holds_arrays(value) and not v.is_parameter(value)
        if group is v.CRITERION:
            return v.is_module(value) or name in self.functions
        return value is not None and v.may_be_passed(value)

    def _only_model(self) -> str | None:
        models = [n for n, x in self.values.items() if v.is_model(x)]
        return models[0] if len(models) == 1 else None

    def maker(self, name: str) -> str | None:
        """`make_NAME()`, a function of the file without required parameters."""
        for prefix in MAKERS[:-1]:
            made = self.functions.get(prefix + name)
            if made is not None and not required(made):
                return f"{prefix}{name}()"
        return None

    def get(self, found: str) -> Any:
        """The value behind what `find` returned."""
        return self.functions[found[:-2]]() if found.endswith("()") else self.values.get(found, self.functions.get(found))

    def models(self) -> list[str]:
        """Models, most likely first: conventional names, then those that hold or train something, submodules last."""
        names = [n for n, x in self.values.items() if v.is_model(x)]
        torch = [n for n in names if frameworks.model_kind(self.values[n]) == "torch"]
        inner = {id(m) for n in torch for m in list(self.values[n].modules())[1:]}
        order = {n: i for i, n in enumerate(v.MODEL)}
        trained = {n: n not in torch or any(p.requires_grad for p in self.values[n].parameters()) for n in names}
        return sorted(names, key=lambda n: (id(self.values[n]) in inner, not trained[n], order.get(n, len(order))))

    def arrays(self) -> list[str]:
        """Arrays that may be inputs, in order of definition: no parameters, no targets, no module-level scalars."""
        found = [n for n, x in self.values.items() if v.is_array(x) and n not in v.TARGET and len(x.shape) > 0]
        return [n for n in found if not v.is_parameter(self.values[n]) and not frameworks.is_key(self.values[n])]

    def target(self) -> str | None:
        """The conventional target."""
        return next((n for n in v.TARGET if v.is_array(self.values.get(n))), None)


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of `function`; none where Python cannot tell."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def required(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters without a default."""
    star = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters(function) if p.default is p.empty and p.kind not in star]


def for_function(function: Callable[..., Any], names: Names) -> Call | None:
    """A call of `function` whose every required parameter was found, with at least one array or model among them; else None."""
    wanted = required(function)
    found = {p: names.find(p) for p in wanted}
    rest = [p for p in wanted if found[p] is None]
    if rest and names.given and len(rest) <= len(names.given):  # `--input` under another name: by position
        found.update(zip(rest, [g for g in names.given if g not in found.values()], strict=False))
    if not wanted or any(found[p] is None for p in wanted):
        return None
    made = {p: names.get(str(found[p])) for p in wanted}
    if not any(v.holds_arrays(x) or v.is_module(x) or frameworks.is_tree(x) for x in made.values()):
        return None
    keyword_only = {p.name for p in parameters(function) if p.kind is p.KEYWORD_ONLY}
    args = tuple(made[p] for p in wanted if p not in keyword_only)
    kwargs = {p: made[p] for p in wanted if p in keyword_only}
    text = ", ".join([*(str(found[p]) for p in wanted if p not in keyword_only), *(f"{p}={found[p]}" for p in kwargs)])
    return Call(args, kwargs, text)


def for_model(model: Any, names: Names) -> Iterator[Call]:
    """Calls of `model` worth trying, best first."""
    params = parameters(frameworks.forward(model))
    takes_any = any(p.kind is p.VAR_KEYWORD for p in params)
    plain = [p for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    wanted = [p.name for p in plain if p.default is p.empty]
    if not wanted and any(p.kind is p.VAR_POSITIONAL for p in params):
        wanted = ["x"]
    most = len(plain) or len(wanted)
    if names.given:
        yield from _from_given(plain, wanted, names)
    yield from _from_mapping({p.name for p in plain}, wanted, takes_any, names)
    yield from _from_tuple(wanted, most, names)
    yield from _by_name(plain, wanted, names)
    yield from _from_loader(wanted, names)
    yield from _by_elimination(wanted, names)


def _from_given(plain: list[inspect.Parameter], wanted: list[str], names: Names) -> Iterator[Call]:
    known = {p.name for p in plain}
    if set(names.given) <= known and set(wanted) <= set(names.given):
        yield Call((), dict(names.given), ", ".join(f"{n}={n}" for n in names.given))
    elif len(names.given) >= len(wanted):
        chosen = list(names.given)[: max(len(wanted), 1)]
        yield Call(tuple(names.given[n] for n in chosen), {}, ", ".join(chosen))


def _conventional_first(names: list[str]) -> list[str]:
    order = {n: i for i, n in enumerate(v.INPUT)}
    return sorted(names, key=lambda n: order.get(n, len(order)))


def _from_mapping(known: set[str], wanted: list[str], takes_any: bool, names: Names) -> Iterator[Call]:
    mappings = [n for n, x in names.values.items() if isinstance(x, Mapping) and x and v.holds_arrays(x)]
    for name in _conventional_first(mappings):
        keys = {str(k) for k in names.values[name]}
        if set(wanted) <= keys and (takes_any or keys <= known):
            target = next((names.values[name][k] for k in v.TARGET if k in keys), None)
            yield Call((), dict(names.values[name]), f"**{name}", target)


def _from_tuple(wanted: list[str], most: int, names: Names) -> Iterator[Call]:
    for name in _conventional_first([n for n, x in names.values.items() if isinstance(x, tuple | list) and v.holds_arrays(x)]):
        yield from _split(tuple(names.values[name]), name, len(wanted), most)


def _split(batch: tuple[Any, ...], name: str, wanted: int, most: int) -> Iterator[Call]:
    """A batch as all the arguments, or as the arguments followed by the target."""
    if wanted <= len(batch) <= most:
        yield Call(batch, {}, f"*{name}")
    if len(batch) == wanted + 1:
        yield Call(batch[:wanted], {}, f"*{name}[:{wanted}]", batch[wanted])


def _by_name(plain: list[inspect.Parameter], wanted: list[str], names: Names) -> Iterator[Call]:
    same = {p.name: p.name for p in plain if v.holds_arrays(names.values.get(p.name)) or (p.name in wanted and p.name in names.values)}
    found: dict[str, str | None] = {p: same.get(p) or names.find(p) for p in wanted}
    if all(found.values()) and (found or same):
        chosen = {p: str(n) for p, n in {**found, **same}.items()}
        if len(set(chosen.values())) == len(chosen):
            positional = [p for p in wanted if not any(q.name == p and q.kind is q.KEYWORD_ONLY for q in plain)]
            keywords = [p for p in chosen if p not in positional]
            text = ", ".join([*(chosen[p] for p in positional), *(f"{p}={chosen[p]}" for p in keywords)])
            yield Call(tuple(names.get(chosen[p]) for p in positional), {p: names.get(chosen[p]) for p in keywords}, text)
    elif not wanted and not same:
        first = next((n for n in v.INPUT if v.is_array(names.values.get(n))), None)
        if first:
            yield Call((names.values[first],), {}, first)


def _from_loader(wanted: list[str], names: Names) -> Iterator[Call]:
    for name in [n for n, x in names.values.items() if v.is_loader(x)][:1]:
        batch = next(iter(names.values[name]), None)
        if isinstance(batch, Mapping):
            yield Call((), dict(batch), f"**next(iter({name}))")
        elif isinstance(batch, tuple | list):
            yield from _split(tuple(batch), f"next(iter({name}))", len(wanted), len(wanted))
        elif v.is_array(batch):
            yield Call((batch,), {}, f"next(iter({name}))")
    for name in BATCHES:
        maker = names.functions.get(name)
        if maker is not None and not required(maker):
            batch = maker()
            yield from _split(tuple(batch) if isinstance(batch, tuple | list) else (batch,), f"{name}()", len(wanted), len(wanted))


def _by_elimination(wanted: list[str], names: Names) -> Iterator[Call]:
    """Parameters without a value of their name take the arrays that are left, in order; a single parameter may try each of them."""
    same = {p for p in wanted if p in names.values and v.may_be_passed(names.values[p])}
    left = [n for n in names.arrays() if n not in same]
    open_ = [p for p in wanted if p not in same]
    if len(open_) == len(left) or (len(open_) > 1 and len(left) > len(open_)):
        taken = iter(left)
        chosen = [p if p in same else next(taken) for p in wanted]
        yield Call(tuple(names.values[n] for n in chosen), {}, ", ".join(chosen))
    elif len(wanted) == 1:
        for name in _conventional_first(left)[:4]:
            yield Call((names.values[name],), {}, name)
