"""Which operations belong to the training mode of a library's layer: dropout, and batch normalisation by the rows at hand."""

from __future__ import annotations

from numdebug.observe.jax.sites import Library

_LIBRARIES = ("/flax/", "/equinox/", "/keras/")
_DROPOUT = frozenset({"Dropout.__call__", "Dropout.call", "BaseSpatialDropout.call", "AlphaDropout.call"})
_STATISTICS = {  # what only runs on the way to the statistics of a batch
    "BatchNorm.__call__": frozenset({"_compute_stats", "pmean"}),
    "BatchNormalization.call": frozenset({"_moments", "BatchNormalization._moments"}),
}


def training_mode(name: str, library: Library) -> str | None:
    """Of an operation, by the library functions that it ran in."""
    inside = [(function, file.replace("\\", "/")) for function, file in library]
    for depth, (function, path) in enumerate(inside):
        if not any(part in path for part in _LIBRARIES):
            continue
        if function in _DROPOUT and name == "random":
            return "dropout"
        if any(inner in _STATISTICS.get(function, ()) for inner, _ in inside[depth + 1 :]):
            return "batch statistics"
    return None
