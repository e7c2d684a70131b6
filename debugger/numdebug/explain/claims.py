"""What a model's answer is: an ordered list of claims, each with its subjects and citations. There is no free prose."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

KINDS = ("cause", "evidence", "order", "fix", "check", "ruled_out")
LONGEST = 400  # characters of a sentence: the longest `because` that a rule of the catalogue writes has 330
MOST = 60  # claims in an answer: six kinds for each of ten findings; more than a person reads


@dataclass(frozen=True)
class Claim:
    """One sentence, what it is about (`subjects`) and what it rests on (`cites`): ids of the report. `patch`: a unified diff, in a fix."""

    kind: str
    subjects: tuple[str, ...]
    cites: tuple[str, ...]
    text: str
    patch: str | None = None


@dataclass(frozen=True)
class Malformed:
    """Something in the list that is no claim, and why."""

    what: str
    why: str


_IDS = {"type": "array", "items": {"type": "string"}}
SCHEMA: dict[str, Any] = {
    "name": "explanation",
    "strict": True,
    "schema": {
        "type": "object",
        "additionalProperties": False,
        "required": ["claims"],
        "properties": {
            "claims": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["kind", "subjects", "cites", "text", "patch"],
                    "properties": {
                        "kind": {"type": "string", "enum": list(KINDS)},
                        "subjects": _IDS,
                        "cites": _IDS,
                        "text": {"type": "string"},
                        "patch": {"type": ["string", "null"]},
                    },
                },
            }
        },
    },
}


class Reader:
    """Takes claims out of an answer while it arrives: `feed` returns those that have become complete."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0  # how far the text is read
        self._inside = False  # past the opening bracket of the list
        self.closed = False  # the list was closed: the answer is whole
        self.seen = 0

    def feed(self, piece: str) -> list[Claim | Malformed]:
        """Claims that `piece` completes. Words around the JSON, and a code fence, are passed over."""
        self._text += piece
        if not self._inside and not self._enter():
            return []
        found: list[Claim | Malformed] = []
        while not self.closed:
            self._skip(", \t\r\n")
            if self._at >= len(self._text):
                break
            if self._text[self._at] == "]":
                self.closed = True
                break
            try:
                value, self._at = json.JSONDecoder().raw_decode(self._text, self._at)
            except ValueError:
                break  # not complete yet, or never
            except RecursionError:  # nested thousands of levels deep: no claim, and nothing that follows is read
                self.seen, self._at = self.seen + 1, len(self._text)
                found.append(Malformed(self._text[-200:], "it is nested too deeply"))
                break
            found.append(parse(value))
            self.seen += 1
        return found

    def _enter(self) -> bool:
        """Past `"claims": [`; a bare list of objects will do."""
        start = self._text.find("[", max(self._text.find('"claims"'), 0))
        if start < 0 or ('"claims"' not in self._text and not self._text[start + 1 :].lstrip().startswith("{")):
            return False
        self._inside, self._at = True, start + 1
        return True

    def _skip(self, characters: str) -> None:
        while self._at < len(self._text) and self._text[self._at] in characters:
            self._at += 1


def parse(value: Any) -> Claim | Malformed:
    """A claim out of JSON."""
    what = json.dumps(value)[:200]
    if not isinstance(value, dict):
        return Malformed(what, "a claim is an object with kind, subjects, cites and text")
    kind, text, patch = value.get("kind"), value.get("text"), value.get("patch")
    if kind not in KINDS:
        return Malformed(what, f"kind must be one of {', '.join(KINDS)}")
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
        return Malformed(what, f"text must be one sentence of at most {LONGEST} characters")
    if patch is not None and not isinstance(patch, str):
        return Malformed(what, "patch must be a unified diff or null")
    subjects, cites = _ids(value.get("subjects")), _ids(value.get("cites"))
    if subjects is None or cites is None:
        return Malformed(what, "subjects and cites must be lists of ids of the report")
    return Claim(kind, subjects, cites, " ".join(text.split()), patch or None)


def _ids(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        return None
    return tuple(dict.fromkeys(v.strip("[] ") for v in value))


def publish(claims: Iterable[Claim]) -> str:
    """Claims as an answer would hold them."""
    return json.dumps({"claims": [{"kind": c.kind, "subjects": list(c.subjects), "cites": list(c.cites), "text": c.text, "patch": c.patch}
                                  for c in claims]}, indent=1)  # fmt: skip
