"""Call what the file defines but does not run itself, only with values that the file defines; say so before each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol

from numdebug.load import arguments, frameworks, pure, values
from numdebug.load.arguments import Call, Names

LOSS_WORDS = ("loss", "criterion", "objective", "nll", "elbo", "energy")
STEP_NAMES = ("train_step", "training_step", "train_one_step", "train_batch", "step", "update", "one_step", "do_step")
LAST_RESORT = (
    "main",
    "fit",
    "train",
    "run",
    "train_model",
    "run_training",
    "training_loop",
    "experiment",
    "demo",
    "example",
    "run_demo",
    "evaluate",
    "test",
    "check",
    "reproduce",
    "repro",
)
HELPERS_TRIED = 3


class Watcher(Protocol):
    """What a guessed call needs of the observer."""

    saw_forward: bool
    saw_backward: bool

    def returned(self, name: str, value: Any) -> None:
        """An output of a guessed call: it counts as consumed."""

    def loss(self, value: Any) -> None:
        """A scalar that a guessed call produced: backward is called on it."""


@dataclass
class Attempts:
    """What was called, and what did not work."""

    called: list[str] = field(default_factory=list)
    failed: list[tuple[str, Exception]] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """One guessed call. `run` performs it and hands its results to the watcher; it returns what else it did, in words."""

    text: str
    run: Callable[[], str]


def try_calls(
    module: ModuleType, watcher: Watcher, announce: Callable[[str], None], given: dict[str, Any], name: str | None, attempts: Attempts
) -> None:
    """Try plans, best first, until one of them shows a forward or backward pass; `attempts` says how each went, also when this raises."""
    functions = values.own_functions(module)
    if not pure.imports_torch(module):  # a forward pass of a function counts as one: what ran already is not called again
        functions = pure.never_ran(module, functions)
    names = Names(values.public_values(module), functions, given)
    plans = named_plans(module, name, names, watcher) if name else all_plans(module, names, watcher)
    tried: set[str] = set()
    for plan in plans:
        if plan.text in tried:
            continue
        tried.add(plan.text)
        announce(plan.text)
        try:
            more = plan.run()
        except Exception as why:
            attempts.failed.append((plan.text, why))
            if watcher.saw_backward or (watcher.saw_forward and not looks_like_a_wrong_guess(why)):
                attempts.called.append(plan.text)
                raise
            continue
        if watcher.saw_forward or watcher.saw_backward:
            attempts.called.append(plan.text + more)
            break


def looks_like_a_wrong_guess(why: Exception) -> bool:
    """Whether an exception says that the arguments did not fit, rather than that the program went wrong."""
    if isinstance(why, TypeError | AttributeError | KeyError | IndexError | NotImplementedError):
        return True
    words = ("shape", "size", "dimension", "dtype", "expected", "mat1", "unpack", "channels", "broadcast", "same type", "must match")
    return isinstance(why, RuntimeError | ValueError | AssertionError) and any(w in str(why).lower() for w in words)


def models(module: ModuleType) -> list[str]:
    """Names of the models and model classes that the file defines."""
    own = values.public_values(module)
    classes = [n for n, x in own.items() if values.is_module_class(x) and getattr(x, "__module__", None) == module.__name__]
    return [n for n, x in own.items() if values.is_model(x)] + classes


def all_plans(module: ModuleType, names: Names, watcher: Watcher) -> Iterator[Plan]:
    """Steps and losses that take the model, then other losses, models, helpers, model classes, and at last functions without arguments."""
    functions = names.functions
    for name, function in values.transformed(module).items():
        if frameworks.takes_gradient(function) and name not in pure.called_by_the_file(module):
            yield from function_plans(name, function, names, watcher)
    likely = [n for n in functions if n in STEP_NAMES] + [n for n in functions if is_loss_name(n)]
    for with_model in (True, False):
        for name in likely:
            if takes_model(functions[name]) is with_model:
                yield from function_plans(name, functions[name], names, watcher)
    for name in names.models():
        yield from model_plans(name, names.values[name], names, watcher)
    called = {c for f in functions.values() for c in values.code(f).co_names}
    helpers = [n for n in functions if n not in likely and n not in LAST_RESORT and n not in called]
    for name in helpers[:HELPERS_TRIED]:
        yield from function_plans(name, functions[name], names, watcher)
    for name, kind in names.values.items():
        if values.is_module_class(kind) and getattr(kind, "__module__", None) == module.__name__ and not arguments.required(kind):
            yield from class_plans(name, kind, names, watcher)
    for name in [n for n in LAST_RESORT if n in functions] + [n for n in functions if n.startswith(("train_", "fit_", "run_"))]:
        if not arguments.required(functions[name]):
            yield Plan(f"{name}()", lambda f=functions[name], n=name: deliver(f(), n, watcher))  # type: ignore[misc]  # default-bound lambda


def named_plans(module: ModuleType, name: str, names: Names, watcher: Watcher) -> Iterator[Plan]:
    """Plans for PATH:NAME, whatever its name suggests."""
    target = values.named(module, name)
    if values.is_module(target):
        yield from model_plans(name, target, names, watcher)
    elif isinstance(target, type):
        yield from class_plans(name, target, names, watcher)
    elif callable(target) and not arguments.required(target):
        yield Plan(f"{name}()", lambda: _call_named(name, target, names, watcher))
    elif callable(target):
        yield from function_plans(name, target, names, watcher)


def _call_named(name: str, target: Callable[..., Any], names: Names, watcher: Watcher) -> str:
    result = target()
    if not values.is_module(result):
        return deliver(result, name, watcher)
    return _first_that_fits(list(model_plans(f"{name}()", result, names, watcher)))


def _first_that_fits(plans: list[Plan]) -> str:
    for plan in plans[:-1]:
        try:
            return f", then {plan.text}{plan.run()}"
        except (TypeError, RuntimeError, ValueError):
            continue
    return f", then {plans[-1].text}{plans[-1].run()}" if plans else ""


def function_plans(name: str, function: Callable[..., Any], names: Names, watcher: Watcher) -> Iterator[Plan]:
    """The call of one function, where the file has a value for every parameter."""
    call = arguments.for_function(function, names)
    if call is not None:
        yield Plan(f"{name}({call.text})", lambda: _run_function(name, function, call, watcher))


def _run_function(name: str, function: Callable[..., Any], call: Call, watcher: Watcher) -> str:
    result = function(*call.args, **call.kwargs)
    if pure.unseen(result, watcher) and not call.kwargs and not frameworks.takes_gradient(function):
        more = pure.differentiated(function, call.args)
        if more is not None:
            values_and_gradients, text = more
            return deliver(values_and_gradients, name, watcher) + text
    return deliver(result, name, watcher)


def model_plans(name: str, model: Any, names: Names, watcher: Watcher) -> Iterator[Plan]:
    """Calls of a model, each followed by the file's loss where there is one and a target for it."""
    for call in arguments.for_model(model, names):
        if frameworks.model_kind(model) != "torch":
            yield from pure_plans(name, model, call, names, watcher)
            continue
        text = f"{name}({call.text})"
        yield Plan(text, lambda call=call: _run_model(name, model, call, names, watcher))  # type: ignore[misc]  # default-bound lambda


def pure_plans(name: str, model: Any, call: Call, names: Names, watcher: Watcher) -> Iterator[Plan]:
    """The same for models of JAX and Keras, which are differentiated as functions of their parameters."""
    for text, apply, state in pure.applications(name, model, call, names.values):
        yield Plan(text, lambda apply=apply, state=state: _run_pure(name, model, apply, state, call, names, watcher))  # type: ignore[misc]  # as above


def _run_pure(
    name: str, model: Any, apply: Callable[[Any], Any], state: Any, call: Call, names: Names, watcher: Watcher
) -> str:
    output = apply(state)
    then = ""
    whole = apply
    if values.loss_in(output) is None:
        found = _loss_of(output, model, call, names)
        if found is not None:
            then, output = f", then {found[0]}", found[1]
            whole = lambda state: _loss_of(apply(state), model, call, names)[1]  # type: ignore[index]  # noqa: E731
    if pure.unseen(output, watcher) and frameworks.model_kind(model) != "keras":
        more = pure.differentiated(whole, (state,), name)
        if more is not None:
            return then + deliver(more[0], name, watcher) + more[1]
    return then + deliver(output, name, watcher)


def class_plans(name: str, kind: type, names: Names, watcher: Watcher) -> Iterator[Plan]:
    """A model class that can be built without arguments."""
    if not arguments.required(kind) and values.is_module_class(kind):
        yield from model_plans(f"{name}()", kind(), names, watcher)


def _run_model(name: str, model: Any, call: Call, names: Names, watcher: Watcher) -> str:
    output = model(*call.args, **call.kwargs)
    if values.loss_in(output) is None or isinstance(output, tuple):
        found = _loss_of(output, model, call, names)
        if found is not None:
            text, loss = found
            if values.scalar_float(loss) and values.requires_grad(loss):
                return f", then {text}{deliver(loss, text, watcher)}"
            watcher.returned(text, loss)
            return f", then {text}"
    return deliver(output, name, watcher)


def _loss_of(output: Any, model: Any, call: Call, names: Names) -> tuple[str, Any] | None:
    """The file's own loss of a model's output: (text, value); None where there is no loss, no target, or they do not fit."""
    target, target_name = call.target, "target"
    if target is None and (found := names.target()):
        target, target_name = names.values[found], found
    first = output[0] if isinstance(output, tuple) and output else getattr(output, "logits", output)
    for name in [*values.CRITERION, *names.values]:
        criterion = names.values.get(name)
        function = names.functions.get(name)
        try:
            if criterion is not None and values.is_loss_module(criterion) and target is not None:
                return f"{name}(output, {target_name})", criterion(first, target)
            if function is not None and is_loss_name(name) and (fitted := _fit_loss(function, first, target, target_name, model, names)):
                args, text = fitted
                return f"{name}({text})", function(*args)
        except (TypeError, RuntimeError, ValueError, IndexError):
            continue
    return None


def _fit_loss(
    function: Callable[..., Any], output: Any, target: Any, target_name: str, model: Any, names: Names
) -> tuple[list[Any], str] | None:
    """Arguments of a loss written as a function: the output where a parameter is named so (else first), the target, the file's values."""
    wanted = arguments.required(function)
    place = next((p for p in wanted if p in values.OUTPUT), next((p for p in wanted if p not in values.TARGET), None))
    args, text = [], []
    for parameter in wanted:
        if parameter == place:
            args.append(output)
            text.append("output")
        elif parameter in values.MODEL:
            args.append(model)
            text.append(parameter)
        elif (found := names.find(parameter)) is not None:
            args.append(names.get(found))
            text.append(found)
        elif target is not None and parameter == wanted[-1]:
            args.append(target)
            text.append(target_name)
        else:
            return None
    return (args, ", ".join(text)) if place is not None else None


def deliver(result: Any, name: str, watcher: Watcher) -> str:
    """Hand what a call returned to the watcher; a scalar float that can be differentiated is. Returns that in words."""
    loss = values.loss_in(result)
    if loss is not None and values.requires_grad(loss) and not watcher.saw_backward:
        watcher.loss(loss)
        return ", and backward on its result"
    for where, array in values.arrays(result, name):
        watcher.returned(where, array)
    return ""


def is_loss_name(name: str) -> bool:
    """Whether a function's name says that it computes a loss."""
    return any(word in name.lower() for word in LOSS_WORDS)


def takes_model(function: Callable[..., Any]) -> bool:
    """Whether a required parameter is a model by its name."""
    return any(p in values.MODEL for p in arguments.required(function))
