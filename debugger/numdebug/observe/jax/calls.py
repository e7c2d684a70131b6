"""Primitives that call a piece of jaxpr once, and the parameter that holds it."""

CALLS = {
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "custom_vmap_call": "call", "core_closed_call": "call_jaxpr",
}  # fmt: skip
