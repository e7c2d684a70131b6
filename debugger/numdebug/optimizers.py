"""Constructors of optimizers, by the names that programs write."""

from __future__ import annotations

OPTAX = frozenset({
    "adabelief", "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamaxw", "adamw", "adan", "amsgrad", "fromage", "lamb", "lars",
    "lion", "nadam", "nadamw", "noisy_sgd", "novograd", "optimistic_gradient_descent", "radam", "rmsprop", "rprop", "sgd", "sign_sgd",
    "sm3", "yogi",
})  # fmt: skip
