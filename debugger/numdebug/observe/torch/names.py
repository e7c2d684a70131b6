"""PyTorch's operator names in the field's own words."""

from __future__ import annotations

from typing import Any

_CANONICAL = {
    "_softmax": "softmax", "_safe_softmax": "softmax", "_log_softmax": "log_softmax", "log_sigmoid_forward": "log_sigmoid",
    "mm": "matmul", "bmm": "matmul", "addmm": "matmul", "baddbmm": "matmul", "addbmm": "matmul", "addmv": "matmul", "mv": "matmul",
    "dot": "matmul", "vdot": "matmul", "linear": "matmul", "_addmm_activation": "matmul", "addr": "matmul",
    "convolution": "conv", "_convolution": "conv", "mkldnn_convolution": "conv", "convolution_overrideable": "conv",
    "native_layer_norm": "layer_norm", "native_batch_norm": "batch_norm", "_native_batch_norm_legit": "batch_norm",
    "_native_batch_norm_legit_functional": "batch_norm", "_batch_norm_with_update": "batch_norm", "native_group_norm": "group_norm",
    "_fused_rms_norm": "rms_norm", "linalg_vector_norm": "norm", "_foreach_norm": "norm", "linalg_matrix_norm": "norm",
    "_to_copy": "cast", "clone": "copy", "lift_fresh": "constant", "lift_fresh_copy": "constant", "scalar_tensor": "constant",
    "clamp_min": "clamp", "clamp_max": "clamp", "clip": "clamp", "maximum": "maximum", "minimum": "minimum",
    "fmax": "maximum", "fmin": "minimum",
    "nll_loss_forward": "nll_loss", "nll_loss2d_forward": "nll_loss", "_ctc_loss": "ctc_loss", "_cudnn_ctc_loss": "ctc_loss",
    "_cdist_forward": "cdist", "_euclidean_dist": "cdist", "_linalg_eigh": "eigh", "_linalg_svd": "svd", "linalg_eig": "eig",
    "_linalg_solve_ex": "solve", "linalg_inv_ex": "inverse", "linalg_cholesky_ex": "cholesky", "_linalg_det": "det",
    "_linalg_slogdet": "slogdet",
    "div_": "div", "true_divide": "div", "divide": "div", "multiply": "mul", "subtract": "sub", "square": "square", "special_entr": "entr",
    "special_log1p": "log1p", "arccos": "acos", "arcsin": "asin", "arctanh": "atanh", "arctan2": "atan2", "special_xlogy": "xlogy",
    "special_xlog1py": "xlog1py",
    "native_dropout": "dropout", "_foreach_add": "add", "_foreach_mul": "mul", "_foreach_div": "div", "_foreach_sqrt": "sqrt",
    "_foreach_addcdiv": "addcdiv",
    "_foreach_addcmul": "addcmul", "_foreach_lerp": "lerp", "_foreach_sub": "sub", "var_mean": "var", "std_mean": "std",
    "empty_like": "empty", "new_empty": "empty", "empty_strided": "empty", "new_empty_strided": "empty", "masked_fill": "masked_fill",
    "_scaled_dot_product_flash_attention_for_cpu": "attention", "_scaled_dot_product_attention_math": "attention",
    "_scaled_dot_product_efficient_attention": "attention", "_scaled_dot_product_flash_attention": "attention",
}  # fmt: skip


def canonical(func: Any) -> str:
    """aten.log_.default -> log; aten._softmax.default -> softmax; aten._foreach_add_.Scalar -> add."""
    if not hasattr(func, "_schema"):
        return "function"  # a hand-written autograd function
    name = func._schema.name.rpartition("::")[2]
    if name in ("copy_", "index_put_", "scatter_"):
        return "copy" if name == "copy_" else name[:-1]
    if name.endswith("_") and not name.endswith("__") and func._schema.is_mutable:
        name = name[:-1]
    return _CANONICAL.get(name, name)


def native(func: Any) -> str:
    """aten.log.default, or the name of a hand-written autograd function."""
    return str(func) if hasattr(func, "_schema") else f"{func.__name__}.apply"


def scalars_of(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The plain arguments by name: numbers, lists of numbers, dtypes as words."""
    if not hasattr(func, "_schema"):
        return {}
    found: dict[str, Any] = {}
    for position, argument in enumerate(func._schema.arguments):
        value = kwargs.get(argument.name) if argument.kwarg_only or position >= len(args) else args[position]
        if value is None and argument.has_default_value():
            value = argument.default_value
        if isinstance(value, (bool, int, float, str)):
            found[argument.name] = value
        elif isinstance(value, (tuple, list)) and all(isinstance(v, (bool, int, float)) for v in value):
            found[argument.name] = list(value)
        elif type(value).__name__ == "dtype":
            found[argument.name] = str(value).removeprefix("torch.")
    return found
