"""Guessed calls of functions and models that are not PyTorch's: what ran already, how a model is applied, what to differentiate."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from numdebug.load import arguments, frameworks, values
from numdebug.load.arguments import Call


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8", errors="replace"))


def imports_torch(module: ModuleType) -> bool:
    """Whether the file is one of PyTorch's."""
    names: list[str] = []
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return any(name.split(".")[0] == "torch" for name in names)


def called_by_the_file(module: ModuleType) -> set[str]:
    """Names that the file's module level calls, outside of functions."""
    tree = _tree(module)
    todo: list[ast.AST] = list(tree.body)
    found: set[str] = set()
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
        todo.extend(ast.iter_child_nodes(node))
    return found


def never_ran(module: ModuleType, functions: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Functions that the file's module level does not run, directly or through others. Makers without parameters may run again."""
    todo, ran = list(called_by_the_file(module)), set()
    while todo:
        name = todo.pop()
        if name in functions and name not in ran:
            ran.add(name)
            todo.extend(values.code(functions[name]).co_names)
    return {n: f for n, f in functions.items() if n not in ran or not arguments.required(f) and n not in values.MODEL}


def unseen(result: Any, watcher: Any) -> bool:
    """Whether a call gave a scalar of JAX of which no derivative was taken."""
    return frameworks.is_jax(values.loss_in(result)) and not watcher.saw_backward


def differentiated(function: Callable[..., Any], args: tuple[Any, ...], model: str | None = None) -> tuple[Any, str] | None:
    """Value and gradient of a function, and that in words: of its models and parameters, else of its first array (JAX's own choice)."""
    names = [p.name for p in arguments.parameters(function)][: len(args)]
    floats = [i for i, value in enumerate(args) if not frameworks.is_key(value) and frameworks.has_floats(value)]
    trained = [i for i in floats if values.is_module(args[i]) or i < len(names) and names[i] in (*values.MODEL, *values.PARAMETERS)]
    trees = [i for i in floats if not values.is_array(args[i])]
    at = trained or trees[:1] or floats[:1]
    if not at:
        return None
    said = model or ", ".join(names[i] if i < len(names) else "its parameters" for i in at)
    return frameworks.differentiate(function, args, tuple(at), values.loss_in), f", and its gradient for {said}"


def applications(name: str, model: Any, call: Call, known: dict[str, Any]) -> Iterator[tuple[str, Callable[[Any], Any], Any]]:
    """(text, how to apply it to its state, the state): `model(x)`, `jax.vmap(model)(x)`, `model.apply(params, x)`."""
    kind = frameworks.model_kind(model)
    if kind == "linen":
        held = frameworks.variables(known)
        if held is not None:
            inner = isinstance(known[held].get("params"), dict) or "params" in known[held]
            state = known[held] if inner else {"params": known[held]}
            text = f"{name}.apply({held if inner else '{' + repr('params') + ': ' + held + '}'}, {call.text})"
        else:
            state = model.init(sys.modules["jax"].random.PRNGKey(0), *call.args, **call.kwargs)
            text = f"{name}.apply({name}.init(jax.random.PRNGKey(0), {call.text}), {call.text})"
        yield text, lambda state: model.apply(state, *call.args, **call.kwargs), state
        return
    yield f"{name}({call.text})", lambda state: state(*call.args, **call.kwargs), model
    if kind == "equinox" and not call.kwargs:  # Equinox's layers take one example; a batch goes through vmap
        yield f"jax.vmap({name})({call.text})", lambda state: sys.modules["jax"].vmap(state)(*call.args), model
