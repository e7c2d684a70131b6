"""What in a program's source can make its numbers differ from process to process although it fixes a seed; and each one's repair."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from numdebug.fixes import scope
from numdebug.fixes.source import Source
from numdebug.recording import Site
from numdebug.repeat.files import after_imports, argument, builtin, calls, function, meaning, site
from numdebug.repeat.order import Call, in_order
from numdebug.repeat.seeds import ENTROPY, GENERATORS, SEEDS, Promise, drawn, promises, seed_of
from numdebug.repeat.sets import Sets
from numdebug.report.model import Repair

_TIMES = ("time.", "datetime.")
_DRAWS = frozenset({
    "random", "randint", "randrange", "choice", "choices", "shuffle", "sample", "uniform", "triangular", "betavariate", "expovariate",
    "gammavariate", "gauss", "lognormvariate", "normalvariate", "vonmisesvariate", "paretovariate", "weibullvariate", "getrandbits",
    "randbytes", "binomialvariate",
})  # fmt: skip
_NO_DRAW = frozenset({"seed", "default_rng", "get_state", "set_state"})
# What draws from NumPy's global random numbers unless it is told otherwise.
_BORROWS = frozenset({"sklearn.model_selection.train_test_split", "sklearn.utils.shuffle", "sklearn.utils.resample"})
_MODULES = {"random": "random", "numpy": "numpy.random"}


@dataclass(frozen=True)
class Suspect:
    """One place. `repairs`: spellings of one repair, to be tried in turn. `hashed`: only the hash of strings can make it differ."""

    cause: str
    site: Site
    repairs: tuple[Repair, ...]
    hashed: bool = False


def suspects(sources: Sequence[Source]) -> tuple[list[Promise], list[Suspect]]:
    """The seeds that the program fixes, and what may break that promise; nothing where it promises nothing."""
    order = in_order(sources)
    promised = promises(order)
    if not promised:
        return [], []
    text = _seed_text(promised)
    found = [*_sets(sources), *_hashes(sources), *_generators(order, promised, text), *_entropy(order), *_arrivals(sources)]
    found += [*_unseeded(sources, order, promised, text)]
    places = {source.name: n for n, source in enumerate(sources)}
    return promised, sorted(found, key=lambda s: (places[s.site.file], s.site.line, s.site.column or 0))


def _seed_text(promised: Sequence[Promise]) -> str:
    """The number that the program chose itself, where it can be written anywhere."""
    return next((p.text for p in promised if isinstance(p.value, ast.Constant) and isinstance(p.value.value, int)), "0")


def _put(source: Source, node: ast.expr, text: str, summary: str, kind: str = "put_expression", **numbers: str) -> Repair:
    return Repair(kind, "rewrite", summary, {"target": site(source, node)}, {}, {"text": text, **numbers})


# -- strings hash differently in every process -------------------------------------------------------------------------


def _sets(sources: Sequence[Source]) -> Iterator[Suspect]:
    for source in sources:
        for node in Sets(source).walked():
            written = source.text(node)
            first, last = (_put(source, node, f"sorted({written}{key})", "go through the set in sorted order") for key in ("", ", key=str"))
            yield Suspect("set-order", site(source, node), (first, *_first_appearance(source, node), last), hashed=True)


def _first_appearance(source: Source, node: ast.expr) -> Iterator[Repair]:
    """For what cannot be sorted (layers, tensors): a dictionary where the set is made, here or in the assignment that is seen here."""
    reached = scope.reaching(source, node)
    made = reached.value if reached is not None else node
    text = ""
    if isinstance(made, ast.Call) and builtin(source, made.func, "set", "frozenset") and len(made.args) == 1:
        text = source.text(made.args[0])
    elif isinstance(made, ast.Set):
        text = f"[{', '.join(source.text(e) for e in made.elts)}]"
    if text:
        yield _put(source, made, f"dict.fromkeys({text})", "keep the order of first appearance: dict.fromkeys instead of a set")


def _hashes(sources: Sequence[Source]) -> Iterator[Suspect]:
    for source in sources:
        for call in Sets(source).hashed():
            inner = source.text(call.args[0])
            text = inner if _string(call.args[0]) else f"str({inner})"
            same = f"zlib.crc32({text}.encode())"
            repair = _put(source, call, same, "take a hash that is the same everywhere: zlib.crc32", module="zlib")
            yield Suspect("salted-hash", site(source, call), (repair,), hashed=True)
        for call in calls(source):
            key = next((k.value for k in call.keywords if k.arg == "key"), None)
            if key is not None and builtin(source, key, "hash", "id"):
                yield Suspect("hash-order", site(source, call), (_put(source, key, "str", "sort by what is the same everywhere"),))
            elif _identities(source, call):
                kept = _put(source, call, f"list({source.text(call.args[0])})", "keep the order in which they were found")
                yield Suspect("hash-order", site(source, call), (kept,))


def _identities(source: Source, call: ast.Call) -> bool:
    """`sorted(x)` where x is made of id()."""
    if not builtin(source, call.func, "sorted") or len(call.args) != 1:
        return False
    reached = scope.reaching(source, call.args[0])
    made = reached.value if reached is not None else call.args[0]
    return any(isinstance(n, ast.Call) and builtin(source, n.func, "id") for n in ast.walk(made))


def _string(node: ast.expr) -> bool:
    literal = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("lower", "upper", "strip", "join")
    return literal or method


# -- random numbers that nobody seeded -----------------------------------------------------------------------------------


def _generators(order: Sequence[Call], promised: Sequence[Promise], text: str) -> Iterator[Suspect]:
    """Generators and seeds without a number: default_rng(), random.seed(), generator.seed(), default_rng(seed) with seed=None."""
    kept = {p.call for p in promised}
    said = {p.text for p in promised}
    for source, call, name in order:
        if call in kept:
            continue
        value = seed_of(call, name)
        if name == "random.SystemRandom":
            yield Suspect("unseeded", site(source, call), (_put(source, call, f"random.Random({text})", "seed this generator"),))
        elif name in GENERATORS or name in ("random.seed", "numpy.random.seed"):
            unseeded = value is None and not call.args and not any(k.arg is None for k in call.keywords)
            if unseeded or (isinstance(value, ast.Constant) and value.value is None):
                seeded = f"{source.text(call.func)}({text})"
                yield Suspect("unseeded", site(source, call), (_put(source, call, seeded, "seed this generator"),))
            elif isinstance(value, ast.Name | ast.Attribute) and source.text(value) not in said and drawn(source, value, order, none=True):
                given = source.text(value)
                chosen = f"{text} if {given} is None else {given}"
                yield Suspect("unseeded", site(source, call), (_put(source, value, chosen, "seed this generator"),))
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "seed" and not call.args and not call.keywords:
            owner = source.text(call.func.value)
            yield Suspect("unseeded", site(source, call), (_put(source, call, f"{owner}.manual_seed({text})", "seed this generator"),))


def _unseeded(sources: Sequence[Source], order: Sequence[Call], promised: Sequence[Promise], text: str) -> Iterator[Suspect]:
    """The process's own random numbers (random, numpy.random, Keras's first weights), used before anything seeds them."""
    whole = [p for p in promised if p.fixes]
    for which in ("random", "numpy"):
        known = next((n for n, (_, call, name) in enumerate(order) if any(p.call is call and which in p.fixes for p in promised)), None)
        first = next((n for n, one in enumerate(order) if _draws(*one, which)), None)
        if first is not None and (known is None or first < known):
            source, call, _ = order[first]
            yield Suspect("unseeded", site(source, call), tuple(_seeding(sources, whole, which, text, late=known is not None)))
    seeded = any(p.fixes & {"keras", "random"} for p in promised)
    if not seeded and any(p.fixes & {"numpy", "torch", "jax"} for p in promised):
        made = next(((s, c) for s, c, n in order if n.startswith("keras.layers.") or ".keras.layers." in n), None)
        if made is not None:
            yield Suspect("unseeded", site(*made), tuple(_seeding(sources, whole, "keras", text, late=False)))


def _draws(source: Source, call: ast.Call, name: str, which: str) -> bool:
    if which == "random":
        return name.startswith("random.") and name.removeprefix("random.") in _DRAWS
    if name in _BORROWS and argument(call, 1 << 20, "random_state") is None:
        return True
    last = name.removeprefix("numpy.random.")
    if name.startswith("numpy.random.") and "." not in last:
        return last not in _NO_DRAW and last[:1].islower()
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    given = {k.arg for k in call.keywords}
    return "random_state" not in given and (method == "rvs" or (method == "sample" and "frac" in given))


def _seeding(sources: Sequence[Source], whole: Sequence[Promise], which: str, text: str, late: bool) -> Iterator[Repair]:
    """The missing seed, beside one that is there; else, or where that comes too late, right after the main file's imports."""
    what = {"random": "random", "numpy": "numpy.random", "keras": "keras.utils"}[which]
    function = "set_random_seed" if which == "keras" else "seed"
    summary = f"seed {which} as well"
    for p in () if late else whole[:2]:
        statement = p.source.statement(p.call)
        if isinstance(statement, ast.Expr):
            yield Repair("seed_beside", "rewrite", summary, {"target": site(p.source, statement)}, {}, _line(what, function, p.text))
    statement_ = after_imports(sources[0])
    if statement_ is not None:
        yield Repair("seed_beside", "rewrite", summary, {"target": site(sources[0], statement_)}, {}, _line(what, function, text))


def _line(what: str, function: str, text: str) -> dict[str, str]:
    return {"module": what, "function": function, "text": text}


# -- what is another number in every process -----------------------------------------------------------------------------


def _entropy(order: Sequence[Call]) -> Iterator[Suspect]:
    """Clocks inside seeds; process ids, random bytes and unique ids anywhere."""
    for source, call, name in order:
        if name not in ENTROPY or (name.startswith(_TIMES) and not _seeds_something(source, call, order)):
            continue
        text = {"os.urandom": "bytes(16)", "uuid.uuid1": "uuid.UUID(int=0)", "uuid.uuid4": "uuid.UUID(int=0)"}.get(name, "0")
        text = "bytes(16)" if name == "secrets.token_bytes" else '"0"' if name == "secrets.token_hex" else text
        target, text = _outermost(source, call) if text == "0" else (call, text)
        yield Suspect("entropy", site(source, call), (_put(source, target, text, "seed with a number of your own"),))


def _outermost(source: Source, call: ast.Call) -> tuple[ast.expr, str]:
    """int(time.time() * 1000) % 2**31 as a whole becomes 0; of 1234 + os.getpid() the 1234 stays."""
    node: ast.expr = call
    for above in source.ancestors(call):
        if isinstance(above, ast.BinOp):
            other = above.right if above.left is node else above.left
            if isinstance(above.op, ast.Add) and not isinstance(node, ast.Constant):
                return above, source.text(other)
        elif isinstance(above, ast.Call):
            if not (above.func is node or builtin(source, above.func, "int")):
                break
        elif not isinstance(above, ast.Attribute):
            break
        node = above
    return node, "0"


def _seeds_something(source: Source, call: ast.Call, order: Sequence[Call]) -> bool:
    """Whether a clock's reading goes into a seed: in its argument, or through one name."""
    names = set()
    for above in source.ancestors(call):
        if isinstance(above, ast.Call) and _seeding_call(source, above, order):
            return True
        if isinstance(above, ast.Assign):
            names = {t.id if isinstance(t, ast.Name) else t.attr for t in above.targets if isinstance(t, ast.Name | ast.Attribute)}
        elif isinstance(above, ast.Return):
            names = {function(source, above) or ""}
        if isinstance(above, ast.stmt):
            break
    for _, other, name in order:
        if name in SEEDS or seed_of(other, name) is not None or name == "jax.random.fold_in":
            read = {n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(other) if isinstance(n, ast.Name | ast.Attribute)}
            if read & names:
                return True
    return False


def _seeding_call(source: Source, call: ast.Call, order: Sequence[Call]) -> bool:
    name = meaning(source, call.func)
    if name in SEEDS or seed_of(call, name) is not None or name == "jax.random.fold_in":
        return True
    return name.rpartition(".")[2] in {function(s, c) for s, c, n in order if n in SEEDS or seed_of(c, n) is not None}


# -- results in the order in which they arrive ---------------------------------------------------------------------------


def _arrivals(sources: Sequence[Source]) -> Iterator[Suspect]:
    for source in sources:
        for call in calls(source):
            name = meaning(source, call.func)
            if name.rpartition(".")[2] == "as_completed" and len(call.args) == 1:
                repair = _put(source, call, source.text(call.args[0]), "take the results in the order in which they were asked for")
                yield Suspect("arrival", site(source, call), (repair,))
            elif isinstance(call.func, ast.Attribute) and call.func.attr == "imap_unordered":
                text = source.text(call)
                head = source.text(call.func.value)
                changed = f"{head}.imap{text[len(source.text(call.func)) :]}"
                repair = _put(source, call, changed, "take the results in the order in which they were asked for")
                yield Suspect("arrival", site(source, call), (repair,))
