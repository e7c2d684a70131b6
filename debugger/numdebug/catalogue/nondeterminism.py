"""numbers that differ from process to process although a seed is fixed

What happens
    The order of a set of strings, and hash() of a string, are drawn anew by every Python process. A random number generator that nobody
    seeded starts anywhere, beside others that were seeded. A vocabulary, the order of the data or an augmentation differs from run to run.
Why it matters
    No result can be repeated or compared, and a model that was saved with one numbering of its words or labels reads another one when it is
    loaded: it predicts nonsense.
How we know
    The program fixes a seed. Run twice more in processes of their own it computed different numbers; with this line repaired, and nothing
    else changed, every bit agrees.
Not this
    Programs that fix no seed: nobody promised anything. Sets that are sorted, counted or only asked for their members; sets of whole
    numbers, which come in the same order everywhere. Run names, file names and times of day, as long as the numbers agree.
Fix
    sorted() around the set; zlib.crc32 or hashlib in place of hash(); one seed for every generator in use. Setting PYTHONHASHSEED inside
    the program comes too late: it is read when Python starts.
Read on
    https://docs.python.org/3/reference/datamodel.html#object.__hash__
    https://docs.pytorch.org/docs/stable/notes/randomness.html
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Found, seen

_CAUSES = {
    "set-order": "the order in which a set of strings is gone through is drawn anew by every process",
    "salted-hash": "hash() of a string is drawn anew by every process",
    "hash-order": "what is sorted by hash() or id() comes in another order in every process",
    "unseeded": "these random numbers start anywhere, because no seed is fixed for them before they are drawn",
    "entropy": "this number is another one in every process, and random numbers follow from it",
    "arrival": "results are taken in the order in which they happen to arrive",
}


def _because(hit: Found) -> str:
    e = hit[0]
    differ = f"in two runs {e['what']} differs"
    if e["first"] is not None and e["first"] != e["second"]:
        differ = f"in two runs {e['what']} is {e['first']:.9g} and {e['second']:.9g}"
    also = f" (as do lines {', '.join(map(str, e['lines'][1:]))})" if len(e["lines"]) > 1 else ""
    return f"{differ}, although {e['seed_at']} fixes a seed: {_CAUSES[e['cause']]}{also}"


def _repair(hits: Sequence[Found]) -> Repair:
    e = hits[0][0]
    return repair_ops(str(e["form"]), str(e["summary"]), hits[:1], "rewrite", **(e["change"] or {}))


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
words = "the quick brown fox jumps over the lazy dog and the dog sleeps".split()
vocabulary = {word: n for n, word in enumerate(set(words))}  # here
ids = torch.tensor([vocabulary[word] for word in words])
model = nn.Sequential(nn.Embedding(len(vocabulary), 8), nn.Linear(8, len(vocabulary)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(20):
    loss = nn.functional.cross_entropy(model(ids[:-1]), ids[1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""

FIXED = BROKEN.replace("enumerate(set(words))", "enumerate(sorted(set(words)))").replace("  # here", "")


bug = Bug(
    id="nondeterminism",
    title="numbers that differ from process to process although a seed is fixed",
    family="difference",
    when=seen("runs-apart"),
    because=_because,
    fix="sort the set, take a hash without salt, or seed every random number generator that is used",
    repair=_repair,
    severity="warning",
    symptoms=("different result in every run", "results cannot be reproduced", "saved model predicts nonsense"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="seed तय है, फिर भी हर process में संख्याएँ अलग",
        symptoms=(
            "हर रन में परिणाम अलग आता है",
            "परिणाम दोबारा वैसे ही नहीं आते (reproduce नहीं होते)",
            "सहेजा हुआ (saved) मॉडल बेतुकी prediction देता है",
        ),
        fix="set को sort करें, बिना salt वाला hash लें, या इस्तेमाल होने वाले हर random number generator को seed दें",
        what=(
            "strings के set का क्रम और string का hash() हर Python process में नया होता है, और जिस random number generator "
            "को seed नहीं मिला वह कहीं से भी शुरू होता है। कोई परिणाम दोहराया नहीं जा सकता, और एक numbering के साथ सहेजा "
            "गया मॉडल load होते समय दूसरी numbering पढ़ता है।"
        ),
        fixes={
            "go through the set in sorted order": "set पर sorted क्रम में चलें",
            "keep the order of first appearance: dict.fromkeys instead of a set": (
                "पहली बार आने का क्रम रखें: set की जगह dict.fromkeys"
            ),
            "take a hash that is the same everywhere: zlib.crc32": "ऐसा hash लें जो हर जगह एक-सा हो: zlib.crc32",
            "sort by what is the same everywhere": "ऐसी चीज़ से sort करें जो हर जगह एक-सी हो",
            "keep the order in which they were found": "वही क्रम रखें जिसमें वे मिले थे",
            "seed this generator": "इस generator को seed दें",
            "seed {} as well": "{} को भी seed दें",
            "seed with a number of your own": "अपनी चुनी संख्या से seed दें",
            "take the results in the order in which they were asked for": "परिणाम उसी क्रम में लें जिसमें वे माँगे गए थे",
        },
        measured=("दो रन में एक ही संख्या {first} और {second} आई",),
    ),
)
