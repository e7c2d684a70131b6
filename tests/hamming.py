"""The 28 expressions of Hamming's Numerical Methods for Scientists and Engineers (chapter 3) that suites of unstable formulas list.

Each has inputs, a naive form whose lossy line ends in `# here`, a stable form, and its value in arbitrary precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp


@dataclass(frozen=True)
class Expression:
    """`inputs` by name, as decimal literals of float32 numbers; naive and stable compute `y`."""

    name: str
    inputs: dict[str, tuple[float, ...]]
    naive: str
    stable: str
    truth: Callable[..., mp.mpf]

    def program(self, form: str) -> str:
        """A file that computes the expression and prints the result."""
        data = "".join(f"{name} = torch.tensor({list(values)})\n" for name, values in self.inputs.items())
        return f"import torch\n\n{data}\n{getattr(self, form).strip()}\nprint(y)\n"


BIG = (8.4e7, 1.3e8, 2.6e8)
TINY = (1.1e-8, 2.3e-8, 3.1e-8)
SMALL = (1.1e-4, 1.3e-4, 1.7e-4)

EXPRESSIONS = [
    Expression("2sqrt", {"x": BIG}, "a = torch.sqrt(x + 1)\nb = torch.sqrt(x)\ny = a - b  # here",
               "a = torch.sqrt(x + 1)\nb = torch.sqrt(x)\ny = 1 / (a + b)", lambda x: mp.sqrt(x + 1) - mp.sqrt(x)),
    Expression("2isqrt", {"x": BIG}, "a = 1 / torch.sqrt(x)\nb = 1 / torch.sqrt(x + 1)\ny = a - b  # here",
               "a = torch.sqrt(x)\nb = torch.sqrt(x + 1)\ny = 1 / (a * b * (a + b))", lambda x: 1 / mp.sqrt(x) - 1 / mp.sqrt(x + 1)),
    Expression("2frac", {"x": BIG}, "a = 1 / (x + 1)\nb = 1 / x\ny = a - b  # here", "y = -1 / x / (x + 1)", lambda x: 1 / (x + 1) - 1 / x),
    Expression("2cbrt", {"x": BIG}, "a = (x + 1) ** (1 / 3)\nb = x ** (1 / 3)\ny = a - b  # here",
               "a = (x + 1) ** (1 / 3)\nb = x ** (1 / 3)\ny = 1 / (a * a + a * b + b * b)", lambda x: mp.cbrt(x + 1) - mp.cbrt(x)),
    Expression("2cos", {"x": (0.7, 1.1, 1.9), "e": TINY}, "a = torch.cos(x + e)\nb = torch.cos(x)\ny = a - b  # here",
               "y = -2 * torch.sin(x + e / 2) * torch.sin(e / 2)", lambda x, e: mp.cos(x + e) - mp.cos(x)),
    Expression("2log", {"n": BIG}, "a = torch.log(n + 1)\nb = torch.log(n)\ny = a - b  # here", "y = torch.log1p(1 / n)",
               lambda n: mp.log(n + 1) - mp.log(n)),
    Expression("2sin", {"x": (0.7, 1.1, 1.9), "e": TINY}, "a = torch.sin(x + e)\nb = torch.sin(x)\ny = a - b  # here",
               "y = 2 * torch.cos(x + e / 2) * torch.sin(e / 2)", lambda x, e: mp.sin(x + e) - mp.sin(x)),
    Expression("2tan", {"x": (0.7, 0.9, 1.1), "e": TINY}, "a = torch.tan(x + e)\nb = torch.tan(x)\ny = a - b  # here",
               "y = torch.sin(e) / (torch.cos(x) * torch.cos(x + e))", lambda x, e: mp.tan(x + e) - mp.tan(x)),
    Expression("2atan", {"n": (5.1e4, 6.3e4, 9.7e4)}, "a = torch.atan(n + 1)\nb = torch.atan(n)\ny = a - b  # here",
               "y = torch.atan(1 / (1 + n * (n + 1)))", lambda n: mp.atan(n + 1) - mp.atan(n)),
    Expression("2nthrt", {"x": BIG}, "a = (x + 1) ** 0.2\nb = x ** 0.2\ny = a - b  # here",
               "y = x ** 0.2 * torch.expm1(torch.log1p(1 / x) * 0.2)", lambda x: (x + 1) ** mp.mpf("0.2") - x ** mp.mpf("0.2")),
    Expression("tanhf", {"x": SMALL}, "c = torch.cos(x)\nu = 1 - c  # here\ny = u / torch.sin(x)", "y = torch.tan(x / 2)",
               lambda x: (1 - mp.cos(x)) / mp.sin(x)),
    Expression("exp2", {"x": SMALL}, "a = torch.exp(x)\nu = a - 2\ny = u + torch.exp(-x)  # here", "y = 4 * torch.sinh(x / 2) ** 2",
               lambda x: mp.exp(x) - 2 + mp.exp(-x)),
    Expression("cos2", {"x": SMALL}, "c = torch.cos(x)\nu = 1 - c  # here\ny = u / x**2", "s = torch.sin(x / 2)\ny = 2 * s * s / (x * x)",
               lambda x: (1 - mp.cos(x)) / x**2),
    Expression("expm1", {"x": TINY}, "a = torch.exp(x)\ny = a - 1  # here", "y = torch.expm1(x)", lambda x: mp.expm1(x)),
    Expression("expq2", {"x": (1.7e-7, 1.8e-7, 7.1e-8)}, "a = torch.exp(x)\nu = a - 1  # here\ny = a / u", "y = 1 / -torch.expm1(-x)",
               lambda x: mp.exp(x) / mp.expm1(x)),
    Expression("expq3", {"a": (1.0, 2.0, 0.7), "b": (0.4, 0.3, 0.5), "e": (4.3e-7, 3.9e-7, 3.7e-7)},
               "top = torch.exp((a + b) * e) - 1\nu = torch.exp(a * e) - 1\nv = torch.exp(b * e) - 1  # here\ny = e * top / (u * v)",
               "top = torch.expm1((a + b) * e)\ny = e * top / (torch.expm1(a * e) * torch.expm1(b * e))",
               lambda a, b, e: e * mp.expm1((a + b) * e) / (mp.expm1(a * e) * mp.expm1(b * e))),
    Expression("logq", {"e": TINY}, "q = (1 - e) / (1 + e)\ny = torch.log(q)  # here", "y = torch.log1p(-e) - torch.log1p(e)",
               lambda e: mp.log((1 - e) / (1 + e))),
    Expression("logs", {"n": BIG}, "a = (n + 1) * torch.log(n + 1)\nb = n * torch.log(n)\nu = a - b  # here\ny = u - 1",
               "y = torch.log(n + 1) + n * torch.log1p(1 / n) - 1", lambda n: ((n + 1) * mp.log(n + 1) - n * mp.log(n)) - 1),
    Expression("sqrtexp", {"x": (1.7e-7, 1.75e-7, 1.68e-7)},
               "top = torch.exp(2 * x) - 1\nu = torch.exp(x) - 1  # here\ny = torch.sqrt(top / u)", "y = torch.sqrt(torch.exp(x) + 1)",
               lambda x: mp.sqrt(mp.expm1(2 * x) / mp.expm1(x))),
    Expression("sintan", {"x": (6.3e-4, 7.1e-4, 5.7e-4)}, "top = x - torch.sin(x)  # here\ny = top / (x - torch.tan(x))",
               "y = -0.5 + 9 * x * x / 40", lambda x: (x - mp.sin(x)) / (x - mp.tan(x))),
    Expression("2sqrt-scaled", {"x": BIG}, "a = torch.sqrt(1 + 1 / x)\nu = a - 1  # here\ny = u * torch.sqrt(x)",
               "y = 1 / (torch.sqrt(x + 1) + torch.sqrt(x))", lambda x: mp.sqrt(x + 1) - mp.sqrt(x)),
    Expression("3frac", {"x": (1.1e4, 1.9e4, 2.7e4)}, "a = 1 / (x + 1)\nb = a - 2 / x\ny = b + 1 / (x - 1)  # here",
               "y = 2 / x / (x + 1) / (x - 1)", lambda x: 1 / (x + 1) - 2 / x + 1 / (x - 1)),
    Expression("invcot", {"x": SMALL}, "a = 1 / x\nb = 1 / torch.tan(x)\ny = a - b  # here", "y = x / 3 * (1 + x * x / 15)",
               lambda x: 1 / x - mp.cot(x)),
    Expression("qlog", {"x": (1.788e-7, 2.98e-7, 1.7881e-7)}, "u = torch.log(1 - x)\nv = torch.log(1 + x)  # here\ny = u / v",
               "y = torch.log1p(-x) / torch.log1p(x)", lambda x: mp.log(1 - x) / mp.log(1 + x)),
    Expression("quadp", {"a": (1.0, 2.0, 0.5), "b": (3e4, 4e4, 7e4), "c": (1.0, 1.5, 0.7)},
               "d = torch.sqrt(b * b - 4 * a * c)\nu = -b + d  # here\ny = u / (2 * a)",
               "d = torch.sqrt(b * b - 4 * a * c)\ny = 2 * c / (-b - d)", lambda a, b, c: (-b + mp.sqrt(b * b - 4 * a * c)) / (2 * a)),
    Expression("quadm", {"a": (1.0, 2.0, 0.5), "b": (-3e4, -4e4, -7e4), "c": (1.0, 1.5, 0.7)},
               "d = torch.sqrt(b * b - 4 * a * c)\nu = -b - d  # here\ny = u / (2 * a)",
               "d = torch.sqrt(b * b - 4 * a * c)\ny = 2 * c / (-b + d)", lambda a, b, c: (-b - mp.sqrt(b * b - 4 * a * c)) / (2 * a)),
    Expression("quad2p", {"a": (1.0, 2.0, 0.5), "h": (3e4, 4e4, 7e4), "c": (1.0, 1.5, 0.7)},
               "d = torch.sqrt(h * h - a * c)\nu = d - h  # here\ny = u / a", "d = torch.sqrt(h * h - a * c)\ny = -c / (h + d)",
               lambda a, h, c: (-h + mp.sqrt(h * h - a * c)) / a),
    Expression("quad2m", {"a": (1.0, 2.0, 0.5), "h": (-3e4, -4e4, -7e4), "c": (1.0, 1.5, 0.7)},
               "d = torch.sqrt(h * h - a * c)\nu = -h - d  # here\ny = u / a", "d = torch.sqrt(h * h - a * c)\ny = -c / (h - d)",
               lambda a, h, c: (-h - mp.sqrt(h * h - a * c)) / a),
]  # fmt: skip
