"""A server's answer, put together from the pieces in which it comes: server-sent events, or one JSON document."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LONGEST = 400_000  # characters of an answer's text, and of the arguments of its calls
MOST_CALLS = 64
MOST_LINES = 100  # of one event
LONGEST_LINE = 4 * 2**20  # characters of one event


class Broken(Exception):
    """The answer is none: one clause on what is wrong with it, and what the server or the model says about that."""

    def __init__(self, what: str, said: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.said = said


@dataclass(frozen=True)
class Call:
    """A tool that the model asks for; `arguments` is JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass
class Reader:
    """Feed it the pieces; `heard` gets the text as it comes. Raises Broken."""

    kind: str  # content type
    heard: Callable[[str], None]
    key: str  # never handed on, should a server echo it; empty: there is none
    text: str = ""
    refusal: str = ""
    finish: str | None = None
    tokens: tuple[int, int] | None = None
    _calls: list[dict[str, str]] = field(default_factory=list)
    _numbered: dict[int, dict[str, str]] = field(default_factory=dict)
    _form: str | None = None
    _rest: str = ""
    _data: str = ""
    _done: bool = False
    _seen: bool = False  # an event
    _words: bool = False  # anything
    _decoder: Any = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The tools that are asked for, so far."""
        return tuple(Call(c["id"], c["name"], c["arguments"]) for c in self._calls)

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        self._rest += self._decoder.decode(piece)
        if self._form is None:
            self._form = self._guessed()
        if self._form == "events":
            *lines, self._rest = self._rest.split("\n")
            for line in lines:
                self._line(line.removesuffix("\r"))
        if len(self._rest) > LONGEST_LINE:
            raise Broken("is without end")

    def end(self) -> None:
        """No more bytes will come."""
        self._rest += self._decoder.decode(b"", True)
        if self._form == "json":
            self._whole(_json(self._rest, "is not JSON"))
        elif self._form == "events":
            self._line(self._rest.removesuffix("\r"))
            self._line("")
            if not self._seen and not self._done:
                raise Broken("is not a stream of events" if self._words else "is empty")
            if self.finish is None and not self._done:
                raise Broken("broke off in the middle")
        if self.refusal:
            raise Broken("is a refusal", self.refusal)
        if not self.text.strip() and not self._calls and self.finish not in ("length", "content_filter"):
            raise Broken("is empty")

    def _guessed(self) -> str | None:
        begin = self._rest.lstrip("\ufeff \t\r\n")
        if "html" in self.kind or begin.startswith("<"):
            raise Broken("is a web page")
        if "event-stream" in self.kind:
            return "events"
        if not begin:
            return None
        return "json" if begin.startswith(("{", "[")) or "json" in self.kind else "events"

    def _line(self, line: str) -> None:
        if self._done or line.startswith(":"):
            return
        if not line:
            if self._data:
                raise Broken("holds an event that is not JSON")
            return
        self._words = True
        name, _, value = line.partition(":")
        if name != "data":
            return
        value = value.removeprefix(" ")
        if value.strip() == "[DONE]":
            self._done = True
            return
        self._data += value
        try:
            chunk = json.loads(self._data)
        except (ValueError, RecursionError):
            self._data += "\n"  # an event may be spread over several lines
            if self._data.count("\n") > MOST_LINES:
                raise Broken("holds an event that is not JSON") from None
            return
        self._data = ""
        self._seen = True
        self._chunk(chunk, "delta")

    def _whole(self, document: Any) -> None:
        self._seen = True
        self._chunk(document, "message")
        self.finish = self.finish or "stop"

    def _chunk(self, chunk: Any, part: str) -> None:
        """One event (`part` is delta) or the whole document (message)."""
        if not isinstance(chunk, dict):
            raise Broken("is not what an OpenAI-compatible server sends")
        if chunk.get("error"):
            error = chunk["error"]
            raise Broken("ends in an error", str(error.get("message")) if isinstance(error, dict) else str(error))
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            counts = usage.get("prompt_tokens"), usage.get("completion_tokens")
            if all(isinstance(n, int) for n in counts):
                self.tokens = counts  # type: ignore[assignment]
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            if part == "message":
                raise Broken("is not what an OpenAI-compatible server sends")
            return
        for choice in choices:
            if not isinstance(choice, dict) or choice.get("index") not in (0, None):
                continue
            said = choice.get(part) or {}
            if not isinstance(said, dict):
                raise Broken("is not what an OpenAI-compatible server sends")
            self._say(_text(said.get("content")))
            self.refusal = (self.refusal + _text(said.get("refusal")))[:LONGEST]
            for call in said.get("tool_calls") or []:
                self._call(call)
            if isinstance(choice.get("finish_reason"), str):
                self.finish = choice["finish_reason"]

    def _say(self, text: str) -> None:
        if not text:
            return
        if self.key and self.key in self.text[-len(self.key) :] + text:  # it may come in two pieces
            raise Broken("holds the key that it was asked with")
        if len(self.text) + len(text) > LONGEST:
            raise Broken("is without end")
        self.text += text
        self.heard(text)

    def _call(self, call: Any) -> None:
        """Part of a call. Servers number them, or give an id to the first part of each, or both."""
        if not isinstance(call, dict) or not isinstance(call.get("function") or {}, dict):
            raise Broken("asks for a tool in a way that nobody does")
        function, number, name = call.get("function") or {}, call.get("index"), str(call.get("id") or "")
        mine = self._calls[-1] if self._calls else None
        if isinstance(number, int):
            mine = self._numbered.get(number)
        elif name:
            mine = next((c for c in self._calls if c["id"] == name), None)
        if mine is None or (name and mine["id"] and name != mine["id"]):
            mine = {"id": "", "name": "", "arguments": ""}
            self._calls.append(mine)
            if len(self._calls) > MOST_CALLS:
                raise Broken("asks for too many tools at once")
            if isinstance(number, int):
                self._numbered[number] = mine
        mine["id"] = mine["id"] or name
        mine["name"] = mine["name"] or str(function.get("name") or "")
        arguments = function.get("arguments", "")
        mine["arguments"] += arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
        if len(mine["arguments"]) > LONGEST:
            raise Broken("is without end")


def _text(content: Any) -> str:
    """Text, or the text in a list of parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict) and part.get("type", "text") == "text")
    return content if isinstance(content, str) else ""


def _json(text: str, otherwise: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Broken(otherwise) from None
