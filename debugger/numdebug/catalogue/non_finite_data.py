"""NaN or inf in the inputs, targets or weights as loaded

What happens
    An empty field, a failed sensor or a 0 / 0 in preprocessing is NaN in the data; the batch that draws the row has a NaN loss.
Why it matters
    It looks like a training problem: another seed moves the step, a lower rate does not help.
How we know
    The NaN or inf that reaches the loss was in the array before the step's first operation.
Not this
    -inf in a mask that softmax turns into 0; missing values that the program handles (nanmean, where).
Fix
    Drop or fill the rows when loading, and check np.isfinite(array).all() once.
Read on
    NumPy's documentation of genfromtxt (missing values become NaN).
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import reaches, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    if e.kind == "nonfinite-birth":
        return f"{e['non_finite']} of {e['size']} elements were not finite when they were loaded, {reaches(e)}"
    what = f"{e['nan']} NaN" if e["nan"] else f"{e['inf']} inf"
    rows = f" (rows {', '.join(map(str, e['rows'][:3]))})" if e["rows"] else ""
    name = f" in {e['name']}" if e["name"] else " in an array that the step reads"
    return f"{what} of {e['size']} elements{name}{rows}, there before any operation, and it reaches {e['reaches']}"


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
weather = torch.randn(30, 4)
weather[17, 2] = float("nan")  # here
yields = weather[:, :1] * 2 + 1
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for epoch in range(2):
    for batch in torch.arange(30).split(10):
        loss = (model(weather[batch]) - yields[batch]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
weather = torch.randn(30, 4)
weather[17, 2] = 0.0
yields = weather[:, :1] * 2 + 1
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for epoch in range(2):
    for batch in torch.arange(30).split(10):
        loss = (model(weather[batch]) - yields[batch]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def _repair(hits: Sequence[Found]) -> Repair:
    values = [hit[0]["value"] for hit in hits if hit[0]["value"] is not None]
    return repair_ops("drop_rows", "drop the rows that are not finite", hits, kind="data", array="torch", values=values)


bug = Bug(
    id="non-finite-data",
    title="NaN or inf in the data as loaded",
    family="training",
    when=seen("non-finite-input", role=("input", "constant", "buffer", "parameter"), meant=False)
    | seen("nonfinite-birth", born="data", deliberate=False),
    because=_because,
    fix="drop or fill rows with missing values when loading",
    repair=_repair,
    symptoms=("loss becomes NaN",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="load हुए डेटा में ही NaN या inf",
        symptoms=("loss NaN हो जाता है",),
        fix="load करते समय वे rows हटाएँ या भरें जिनमें मान ग़ायब हैं",
        what=(
            "डेटा में कोई खाली field, ख़राब sensor या preprocessing का 0 / 0 NaN बनकर पड़ा है, और जिस बैच में वह row आती "
            "है उसका loss NaN होता है। दिखता यह ट्रेनिंग की समस्या जैसा है: seed बदलने से बस स्टेप बदलता है, learning "
            "rate घटाने से कुछ नहीं होता।"
        ),
        fixes={
            "drop the rows that are not finite": "वे rows हटाएँ जिनके मान finite नहीं हैं",
        },
        measured=("डेटा में {nan} element NaN और {inf} element inf मिले",),
    ),
)
