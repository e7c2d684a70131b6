"""What a fix is called in each framework. Entries are written in PyTorch's words; users read those of their program."""

from __future__ import annotations

import re
from dataclasses import replace

from numdebug.report.model import Diagnosis, Fix

_WORDS: dict[str, dict[str, str]] = {
    "log_softmax": {"jax": "jax.nn.log_softmax", "keras": "keras.ops.log_softmax", "numpy": "x - np.logaddexp.reduce(x)"},
    "logsigmoid": {"jax": "jax.nn.log_sigmoid", "keras": "keras.ops.log_sigmoid", "numpy": "-np.logaddexp(0, -x)"},
    "the library's softmax": {
        "torch": "torch.softmax",
        "jax": "jax.nn.softmax",
        "keras": "keras.ops.softmax",
        "numpy": "exp(x - max(x))",
    },
    "the library's logsumexp": {
        "torch": "torch.logsumexp",
        "jax": "jax.nn.logsumexp",
        "keras": "keras.ops.logsumexp",
        "numpy": "np.logaddexp.reduce",
    },
    "the library's softplus": {
        "torch": "torch.nn.functional.softplus",
        "jax": "jax.nn.softplus",
        "keras": "keras.ops.softplus",
        "numpy": "np.logaddexp(0, x)",
    },
    "logaddexp": {"jax": "jnp.logaddexp", "keras": "keras.ops.logaddexp", "numpy": "np.logaddexp"},
    "xlogy": {"jax": "jax.scipy.special.xlogy", "keras": "where", "numpy": "scipy.special.xlogy"},
    "where or masked_fill": {"jax": "jnp.where", "keras": "keras.ops.where", "numpy": "np.where"},
    "torch.isclose": {"jax": "jnp.isclose", "keras": "keras.ops.isclose", "numpy": "np.isclose"},
    "lstsq": {"jax": "jnp.linalg.lstsq", "keras": "keras.ops.lstsq", "numpy": "np.linalg.lstsq"},
    "x.var(correction=0)": {"jax": "jnp.var(x)", "keras": "keras.ops.var(x)", "numpy": "x.var()"},
    "cross_entropy": {
        "jax": "optax.softmax_cross_entropy",
        "keras": "a loss with from_logits=True",
        "numpy": "a loss of the logits",
    },
    "nll_loss": {"jax": "the mean of the picked ones", "keras": "a loss of your own", "numpy": "the mean of the picked ones"},
    "clip_grad_norm_": {"jax": "optax.clip_by_global_norm", "keras": "clipnorm", "numpy": "by its length"},
    "scale the loss with a GradScaler": {
        "jax": "scale the loss",
        "keras": "use keras.optimizers.LossScaleOptimizer",
        "numpy": "scale the loss",
    },
    "bfloat16 autocast": {"jax": "bfloat16", "keras": 'the policy "mixed_bfloat16"', "numpy": "float32"},
    "under autocast": {"jax": "in bfloat16", "keras": 'under the policy "mixed_bfloat16"', "numpy": "in the narrow format"},
    "int64": {"jax": "int64 (jax_enable_x64)"},
    "model.eval() before it": {"jax": "the layers' switch of training mode off", "keras": "training=False"},
    "float64": {"jax": "float64 (jax_enable_x64)"},
}
_HINDI: dict[str, dict[str, str]] = {
    **{word: names for word, names in _WORDS.items() if " " not in word},
    "library का softmax": _WORDS["the library's softmax"],
    "library का logsumexp": _WORDS["the library's logsumexp"],
    "library का softplus": _WORDS["the library's softplus"],
    "where या masked_fill": _WORDS["where or masked_fill"],
    "cross_entropy": {"jax": "optax.softmax_cross_entropy", "keras": "loss (from_logits=True)", "numpy": "loss (logits वाला)"},
    "nll_loss": {"jax": "चुने हुए मानों के mean", "keras": "अपने loss", "numpy": "चुने हुए मानों के mean"},
    "clip_grad_norm_": {"jax": "optax.clip_by_global_norm", "keras": "clipnorm", "numpy": "लंबाई से"},
    "GradScaler से loss को scale करें": {
        "jax": "loss को scale करें",
        "keras": "keras.optimizers.LossScaleOptimizer इस्तेमाल करें",
        "numpy": "loss को scale करें",
    },
    "bfloat16 autocast": _WORDS["bfloat16 autocast"] | {"keras": 'policy "mixed_bfloat16"'},
    "autocast में": {"jax": "bfloat16 में", "keras": 'policy "mixed_bfloat16" में', "numpy": "छोटे फ़ॉर्मैट में"},
    "उससे पहले model.eval()": {"jax": "लेयरों का training mode बंद करें", "keras": "training=False"},
}
FRAMEWORKS = ("torch", "jax", "keras", "numpy")


def _any_of(words: dict[str, dict[str, str]]) -> re.Pattern[str]:
    return re.compile("|".join(rf"(?<![\w.]){re.escape(word)}(?![\w(]| \(jax)" for word in sorted(words, key=len, reverse=True)))


_BY_LANGUAGE = {"en": (_WORDS, _any_of(_WORDS)), "hi": (_HINDI, _any_of(_HINDI))}


def said(text: str, framework: str, language: str = "en") -> str:
    """A text in the words of a framework: torch, jax, keras or numpy. Said twice, it stays as it is."""
    words, pattern = _BY_LANGUAGE[language]
    return pattern.sub(lambda found: words[found[0]].get(framework, found[0]), text)


def in_words_of(framework: str, d: Diagnosis) -> Diagnosis:
    """The diagnosis with its fix and repair in the words of a framework."""
    fix = Fix(said(d.fix.summary, framework), d.fix.diff) if d.fix is not None else None
    repair = replace(d.repair, summary=said(d.repair.summary, framework)) if d.repair is not None else None
    return replace(d, fix=fix, repair=repair)
