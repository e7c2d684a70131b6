"""The few words that a catalogue entry's `when` is made of. A condition is data: the engine evaluates it, and `--why` explains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from numdebug.evidence import Evidence

Found = tuple[Evidence, ...]  # the first is the one that the diagnosis is about


@dataclass(frozen=True)
class Above:
    """A number strictly above `limit`."""

    limit: float

    def __call__(self, value: Any) -> bool:
        return isinstance(value, (int, float)) and value > self.limit

    def __str__(self) -> str:
        return f"> {self.limit:g}"


@dataclass(frozen=True)
class Below:
    """A number strictly below `limit`."""

    limit: float

    def __call__(self, value: Any) -> bool:
        return isinstance(value, (int, float)) and value < self.limit

    def __str__(self) -> str:
        return f"< {self.limit:g}"


class Condition:
    """Something that may hold of the evidence."""

    def find(self, pool: Sequence[Evidence]) -> list[Found]:
        """Every way in which the condition holds."""
        raise NotImplementedError

    def explain(self, pool: Sequence[Evidence]) -> Iterator[tuple[int, str]]:
        """(depth, line): what was looked for and what was met."""
        raise NotImplementedError

    def __and__(self, other: Condition) -> Condition:
        return Joined(self, other)

    def __or__(self, other: Condition) -> Condition:
        return Either(self, other)

    def __invert__(self) -> Condition:
        return Absent(self)


@dataclass(frozen=True)
class Seen(Condition):
    """Evidence of one kind whose facts have given values: a value, several, or a test such as Above(0)."""

    kind: str
    facts: tuple[tuple[str, Any], ...] = field(default=())

    def find(self, pool: Sequence[Evidence]) -> list[Found]:
        return [(e,) for e in pool if e.kind == self.kind and all(_holds(e[name], wanted) for name, wanted in self.facts)]

    def explain(self, pool: Sequence[Evidence]) -> Iterator[tuple[int, str]]:
        words = ", ".join(f"{name} {_words(wanted)}" for name, wanted in self.facts)
        yield 0, f"{self.kind}{' with ' + words if words else ''}: {len(self.find(pool))} found"
        for e in pool:
            if e.kind == self.kind:
                missed = [f"{name} is {e[name]!r}" for name, wanted in self.facts if not _holds(e[name], wanted)]
                yield 1, f"{e.id} at {e.site.file + ':' + str(e.site.line) if e.site else '?'}: {'; '.join(missed) or 'fits'}"


@dataclass(frozen=True)
class Joined(Condition):
    """Both, about the same operation; with `~` on the right, the left without such a right."""

    left: Condition
    right: Condition

    def find(self, pool: Sequence[Evidence]) -> list[Found]:
        lefts = self.left.find(pool)
        if isinstance(self.right, Absent) and isinstance(self.right.inner, Anywhere):
            return [] if self.right.inner.find(pool) else lefts
        if isinstance(self.right, Absent):
            against = self.right.inner.find(pool)
            return [one for one in lefts if not any(related(one[0], other[0]) for other in against)]
        rights = self.right.find(pool)
        return [(*one, *other) for one in lefts for other in rights if self._fits(one, other)]

    def _fits(self, one: Found, other: Found) -> bool:
        return isinstance(self.right, Anywhere) or related(one[0], other[0])

    def explain(self, pool: Sequence[Evidence]) -> Iterator[tuple[int, str]]:
        yield 0, f"both, about the same operation: {len(self.find(pool))} found"
        for side in (self.left, self.right):
            yield from ((depth + 1, line) for depth, line in side.explain(pool))


@dataclass(frozen=True)
class Either(Condition):
    """One or the other."""

    left: Condition
    right: Condition

    def find(self, pool: Sequence[Evidence]) -> list[Found]:
        return [*self.left.find(pool), *self.right.find(pool)]

    def explain(self, pool: Sequence[Evidence]) -> Iterator[tuple[int, str]]:
        yield 0, f"one or the other: {len(self.find(pool))} found"
        for side in (self.left, self.right):
            yield from ((depth + 1, line) for depth, line in side.explain(pool))


@dataclass(frozen=True)
class Absent(Condition):
    """Nothing of the kind. On the right of `&` it speaks of the same operation."""

    inner: Condition

    def find(self, pool: Sequence[Evidence]) -> list[Found]:
        return [] if self.inner.find(pool) else [()]

    def explain(self, pool: Sequence[Evidence]) -> Iterator[tuple[int, str]]:
        yield 0, f"not the following: {len(self.inner.find(pool))} found"
        yield from ((depth + 1, line) for depth, line in self.inner.explain(pool))


@dataclass(frozen=True)
class Anywhere(Condition):
    """On the right of `&`: in the same run, whatever the operation."""

    inner: Condition

    def find(self, pool: Sequence[Evidence]) -> list[Found]:
        return self.inner.find(pool)

    def explain(self, pool: Sequence[Evidence]) -> Iterator[tuple[int, str]]:
        yield from self.inner.explain(pool)


def seen(kind: str, **facts: Any) -> Seen:
    """`seen("nonfinite-birth", op="exp", born="overflow")`; a tuple lists alternatives."""
    return Seen(kind, tuple(facts.items()))


def birth(**facts: Any) -> Condition:
    """A non-finite value that the programmer did not write down as a constant."""
    return seen("nonfinite-birth", deliberate=False, **facts)


def form(*names: str) -> Condition:
    """Part of one of these naive forms."""
    return seen("naive-form", form=names)


def related(a: Evidence, b: Evidence) -> bool:
    """Whether two facts speak of the same operation: the members of one meet the members of the other."""
    return bool(_members(a) & _members(b))


def _members(e: Evidence) -> set[int]:
    return {*(e.facts.get("members") or ()), *((e.op,) if e.op is not None else ())}


def _holds(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, tuple):
        return value in wanted
    if isinstance(wanted, Callable):  # type: ignore[arg-type]
        return bool(wanted(value))
    return bool(value == wanted)


def _words(wanted: Any) -> str:
    return " or ".join(map(str, wanted)) if isinstance(wanted, tuple) else str(wanted)
