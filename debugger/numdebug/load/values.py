"""What kind of thing a module-level value is, and the names that people give such things."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from numdebug.errors import UserError
from numdebug.load import frameworks

MODEL = ("model", "net", "network", "module", "nn", "classifier", "regressor", "policy", "actor", "critic", "encoder", "decoder", "layer")
INPUT = (
    "inputs",
    "x",
    "batch",
    "input",
    "X",
    "data",
    "xs",
    "features",
    "feats",
    "images",
    "image",
    "imgs",
    "img",
    "tokens",
    "input_ids",
    "ids",
    "hidden_states",
    "x_train",
    "X_train",
    "train_x",
    "samples",
    "sample",
    "src",
    "obs",
    "points",
    "sequence",
    "seq",
    "example",
    "xb",
    "inp",
)
TARGET = (
    "targets",
    "y",
    "labels",
    "target",
    "label",
    "ys",
    "Y",
    "y_train",
    "train_y",
    "y_true",
    "truth",
    "gt",
    "tgt",
    "true",
    "yb",
    "ground_truth",
)
OPTIMIZER = ("optimizer", "opt", "optim", "optimiser", "tx")
PARAMETERS = ("params", "parameters", "weights", "theta", "variables")
CRITERION = ("criterion", "loss_fn", "loss_func", "loss_function", "loss_f", "lossfn", "objective", "loss", "crit", "compute_loss")
OUTPUT = (
    "logits",
    "pred",
    "preds",
    "prediction",
    "predictions",
    "output",
    "outputs",
    "y_pred",
    "y_hat",
    "yhat",
    "out",
    "scores",
    "logit",
    "estimate",
    "recon",
    "reconstruction",
)
SCALER = ("scaler", "grad_scaler")
SCHEDULER = ("scheduler", "sched", "lr_scheduler")
GROUPS = (MODEL, PARAMETERS, INPUT, TARGET, OPTIMIZER, CRITERION, SCALER, SCHEDULER)


def is_array(value: Any) -> bool:
    """A tensor or array of any framework (not a class, not a plain number)."""
    if isinstance(value, type) or not all(hasattr(value, a) for a in ("dtype", "shape", "__array__")):
        return False
    return not is_module(value) and not frameworks.is_a(value, "keras.KerasTensor")  # which has no numbers


def holds_arrays(value: Any, depth: int = 3) -> bool:
    """An array, or a container that holds nothing but arrays, numbers and such containers, with at least one array."""
    return is_array(value) or (depth > 0 and any(holds_arrays(v, depth - 1) for v in _members(value)))


def arrays(value: Any, name: str = "output", depth: int = 4) -> Iterator[tuple[str, Any]]:
    """Each array inside `value`, with a readable name."""
    if is_array(value):
        yield name, value
    elif depth and isinstance(value, Mapping):
        for key, item in value.items():
            yield from arrays(item, f"{name}[{key!r}]", depth - 1)
    elif depth and isinstance(value, tuple | list):
        fields = getattr(value, "_fields", None)
        for i, item in enumerate(value):
            yield from arrays(item, f"{name}.{fields[i]}" if fields else f"{name}[{i}]", depth - 1)
    elif depth and hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for key in value.__dataclass_fields__:
            yield from arrays(getattr(value, key, None), f"{name}.{key}", depth - 1)


def _members(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, tuple | list) else []


def is_module(value: Any) -> bool:
    """A module of any framework and kind, losses included."""
    return frameworks.model_kind(value) is not None


def is_module_class(value: Any) -> bool:
    """A class of modules."""
    return frameworks.model_class(value)


def is_loss_module(value: Any) -> bool:
    """A module whose call is a loss: a library loss, or one without parameters that is named as a loss."""
    if frameworks.is_a(value, *frameworks.LOSSES):
        return True
    if not is_module(value) or not type(value).__name__.lower().endswith("loss"):
        return False
    return frameworks.model_kind(value) != "torch" or not any(True for _ in value.parameters())


def is_model(value: Any) -> bool:
    """A module that is no loss."""
    return is_module(value) and not is_loss_module(value)


def is_parameter(value: Any) -> bool:
    """A tensor that is trained."""
    return frameworks.is_a(value, "torch.nn.Parameter")


def is_optimizer(value: Any) -> bool:
    """An optimizer."""
    return frameworks.is_a(value, *frameworks.OPTIMIZERS)


def is_loader(value: Any) -> bool:
    """A torch DataLoader."""
    return frameworks.is_a(value, "torch.utils.data.DataLoader")


def may_be_passed(value: Any) -> bool:
    """Whether a guessed call may be given `value`: arrays, numbers, models, optimizers and their helpers, never paths or open files."""
    if value is None or isinstance(value, bool | int | float | complex):
        return True
    return (
        holds_arrays(value)
        or is_module(value)
        or is_loss_module(value)
        or is_optimizer(value)
        or frameworks.is_tree(value)
        or frameworks.is_a(
            value, "torch.amp.GradScaler", "torch.optim.lr_scheduler.LRScheduler", "torch.Generator", "torch.dtype", "torch.device"
        )
    )


def scalar_float(value: Any) -> bool:
    """One floating-point number in an array: what a loss is."""
    if not is_array(value) or getattr(value, "size", None) is None:
        return False
    count = value.numel() if hasattr(value, "numel") else value.size
    floating = value.is_floating_point() if hasattr(value, "is_floating_point") else frameworks.differentiable(value)
    return bool(count == 1 and floating)


def loss_in(value: Any) -> Any:
    """The scalar loss that a call returned: itself, or its `loss` entry or field; None where there is none."""
    if scalar_float(value):
        return value
    for inner in (value.get("loss") if isinstance(value, Mapping) else None, getattr(value, "loss", None)):
        if scalar_float(inner):
            return inner
    if isinstance(value, tuple) and value and scalar_float(value[0]) and not is_array(value):
        return value[0]
    return None


def requires_grad(value: Any) -> bool:
    """Whether a backward pass can start here."""
    return bool(getattr(value, "requires_grad", False))


def named(module: ModuleType, name: str) -> Any:
    """What a dotted name stands for in the file once it has run. Raises UserError where there is no such name."""
    target: Any = module
    for part in name.split("."):
        if not hasattr(target, part):
            raise UserError(f"the program has no {name} once it has run; it defines {', '.join(public_values(module)) or 'nothing'}")
        target = getattr(target, part)
    return target


def public_values(module: ModuleType) -> dict[str, Any]:
    """The file's own module-level values in order of definition; imported modules and private names left out."""
    return {k: v for k, v in vars(module).items() if not k.startswith("_") and not isinstance(v, ModuleType)}


def own_functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Functions that the file itself defines, decorated or not."""
    return {k: v for k, (v, inner) in _from_file(module).items() if k == inner.__name__}


def transformed(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The file's own functions under another name: `grad_fn = jax.value_and_grad(loss)`."""
    return {k: v for k, (v, inner) in _from_file(module).items() if k != inner.__name__ and v is not inner}


def _from_file(module: ModuleType) -> dict[str, tuple[Callable[..., Any], FunctionType]]:
    found = {}
    for name, value in public_values(module).items():
        inner = value if isinstance(value, FunctionType) else None
        inner = frameworks.wrapped(value) or inner
        if inner is not None and inner.__code__.co_filename == module.__file__:
            found[name] = (value, inner)
    return found


def code(function: Callable[..., Any]) -> CodeType:
    """The code of a function, or of the one inside a transformed one."""
    inner: Any = frameworks.wrapped(function) or function
    found: CodeType = inner.__code__
    return found
