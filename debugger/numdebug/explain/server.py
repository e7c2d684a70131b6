"""Ask an OpenAI-compatible server: the exact request, the answer as it streams, and one clear sentence where there is none."""

from __future__ import annotations

import email.utils
import importlib
import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numdebug.explain.post import Failed, Status, post
from numdebug.explain.scrub import GUARDED, Scrubber
from numdebug.explain.settings import OPENAI, Server
from numdebug.explain.stream import Broken, Call, Reader
from numdebug.report.escape import one_line

TRIES = 10  # requests for one answer, with all that a server turns out not to know
WAIT = 10.0  # seconds that a server may ask to be left alone
PAUSE = 0.5  # seconds before a server that failed is asked once more
QUOTED = 200  # characters of what a server says about an error
PER_TOKEN = 3.0  # bytes; see `tokens`
# How the answer's form is asked for, strictest first. The second is how llama-cpp-python, Together and others took a schema early on.
FORMS = ("json_schema", "json_object with schema", "json_object", "text")

# What not every server knows: our name for it, its part of the request, and the words that an error about it holds.
UNKNOWN = (
    ("temperature", "temperature", ("temperature",)),
    ("bound", "", ("max_tokens", "max_completion_tokens")),
    ("tools", "tools", ("tool", "function call")),
    ("form", "response_format", ("response_format", "json_schema", "json_object", "schema", "grammar", "structured")),
)
OTHERWISE = "try again, or another model"
NEXT = {
    "is a web page": "check the base URL, which mostly ends in /v1",
    "is not JSON": "check that the base URL belongs to an OpenAI-compatible server",
    "is not a stream of events": "check that the base URL belongs to an OpenAI-compatible server",
    "is not what an OpenAI-compatible server sends": "check the base URL, which mostly ends in /v1",
    "is empty": "try again, another model, or --no-source in case the report is too long for it",
    "is a refusal": "try another model",
    "holds the key that it was asked with": "do not use this server, and replace the key",
}

__all__ = ["Answer", "Call", "NoAnswer", "ask", "body", "tokens"]


class NoAnswer(Exception):
    """Why there is no answer and what to do next, in one sentence. `text` is what had come before it broke off."""

    def __init__(self, sentence: str, text: str = "") -> None:
        super().__init__(sentence)
        self.text = text


@dataclass(frozen=True)
class Answer:
    """What the model said. `form` is how it was asked to say it: one of FORMS; but for the first, the schema is in the prompt as well."""

    text: str
    calls: tuple[Call, ...]
    finish: str
    tokens: tuple[int, int] | None = None  # of the request and of the answer, as the server counts them
    form: str = FORMS[0]


@dataclass(frozen=True)
class _Refusal:
    """Another status than success: what the server said, and which fields the request had."""

    status: int
    headers: dict[str, str] = field(repr=False)
    text: str = field(repr=False)  # may repeat the key
    request: frozenset[str]


@dataclass(frozen=True)
class _Shape:
    """What is asked for beyond the messages; reduced where a server does not know it."""

    form: str = FORMS[0]
    tools: bool = True
    temperature: bool = True
    bound: str = "max_tokens"  # how the server calls the answer's bound; empty: not at all

    def without(self, word: str) -> _Shape | None:
        """The next simpler request, after a refusal that says `word`; None where nothing is left to leave out."""
        values = dict(self.__dict__)
        if word == "form" and self.form != FORMS[-1]:
            values["form"] = FORMS[FORMS.index(self.form) + 1]
        elif word == "bound" and self.bound:
            values["bound"] = "max_completion_tokens" if self.bound == "max_tokens" else ""
        elif word in ("tools", "temperature") and values[word]:
            values[word] = False
        else:
            return None
        return _Shape(**values)


def body(
    server: Server,
    messages: list[dict[str, Any]],
    schema: dict[str, Any] | None = None,
    tools: list[dict[str, Any]] | None = None,
    scrubber: Scrubber | None = None,
) -> dict[str, Any]:
    """The body of the first request that `ask` sends for the same arguments, secrets and names scrubbed.

    `schema` is what the API calls json_schema: an object with name, strict and schema. Where a server refuses part of the body, `ask` sends
    it again without that part: the schema becomes words at the end of the last message, tools, temperature and max_tokens go.
    """
    return _body(server, messages, schema, tools, scrubber or Scrubber.here(server.key), _first(server))


def tokens(request: dict[str, Any]) -> int:
    """About how many tokens `request` has: one for every 3 bytes of its messages, tools and schema in UTF-8.

    Every model counts in its own way, and none is asked. Prose has 4 to 5 bytes a token, code and numbers 2 to 3, Hindi 3 to 9.
    """
    sent = [request.get(name) for name in ("messages", "tools", "response_format") if name in request]
    return math.ceil(len(json.dumps(sent, ensure_ascii=False).encode("utf-8", "replace")) / PER_TOKEN)


def ask(
    server: Server,
    messages: list[dict[str, Any]],
    schema: dict[str, Any] | None = None,
    tools: list[dict[str, Any]] | None = None,
    heard: Callable[[str], None] | None = None,
    scrubber: Scrubber | None = None,
) -> Answer:
    """The model's answer; `heard` gets its text piece by piece as it comes. Raises NoAnswer within `server.timeout` seconds.

    A server that is busy is asked again once if it says so and wants at most 10 s of rest, one that failed (5xx) once after half a second.
    """
    _load()
    scrubber = scrubber or Scrubber.here(server.key)
    until = time.monotonic() + server.timeout
    shape, rested = _first(server), False
    for _ in range(TRIES):
        got = _once(server, _body(server, messages, schema, tools, scrubber, shape), shape, until, heard or _nobody, scrubber)
        if isinstance(got, Answer):
            return got
        if isinstance(got, NoAnswer):
            raise got
        simpler, rest = _simpler(got, shape), _rest(got)
        if simpler is not None:
            shape = simpler
        elif rest is not None and not rested and time.monotonic() + rest < until:
            rested = True
            time.sleep(rest)
        else:
            raise NoAnswer(_refused(server, got, scrubber))
    raise NoAnswer(f"{server.host} refuses every form of the request; try another model or server.")


def _nobody(text: str) -> None:
    """Nobody listens."""


def _first(server: Server) -> _Shape:
    return _Shape(bound="max_completion_tokens" if server.base_url == OPENAI else "max_tokens")


def _body(
    server: Server,
    messages: list[dict[str, Any]],
    schema: dict[str, Any] | None,
    tools: list[dict[str, Any]] | None,
    scrubber: Scrubber,
    shape: _Shape,
) -> dict[str, Any]:
    request: dict[str, Any] = {"model": server.model, "messages": messages, "stream": True}
    if schema is not None and shape.form == "json_schema":
        request["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif schema is not None:
        request["messages"] = _told(messages, schema)
        if shape.form != "text":
            request["response_format"] = {"type": "json_object"}
        if shape.form == "json_object with schema":
            request["response_format"]["schema"] = schema.get("schema", schema)
    if tools and shape.tools:
        request["tools"] = tools
    if shape.temperature:
        request["temperature"] = 0
    if server.max_tokens is not None and shape.bound:
        request[shape.bound] = server.max_tokens
    for name in ("messages", "tools", "response_format"):
        if name in request:
            request[name] = scrubber.every(request[name])
    return request


def _told(messages: list[dict[str, Any]], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema as words, for a server that knows none. At the end of the last message: many models allow no second system message."""
    words = (
        "\n\nAnswer with one JSON object and nothing around it, of this JSON schema:\n"
        f"{json.dumps(schema.get('schema', schema), ensure_ascii=False)}"
    )
    told = [dict(message) for message in messages]
    for message in reversed(told):
        if message.get("role") == "user" and isinstance(message.get("content"), str):
            message["content"] += words
            return told
    return [*told, {"role": "user", "content": words.strip()}]


def _once(
    server: Server, request: dict[str, Any], shape: _Shape, until: float, heard: Callable[[str], None], scrubber: Scrubber
) -> Answer | NoAnswer | _Refusal:
    """One request. What went wrong is returned, not raised: nothing of the exceptions below, which know what the server said, goes up."""
    reader = Reader("", heard, server.key if server.has_key and len(server.key) >= GUARDED else "")
    try:
        with post(server, request, until) as reply:
            reader.kind = reply.kind
            for piece in reply.pieces:
                reader.feed(piece)
        reader.end()
    except Status as status:
        return _Refusal(status.status, status.headers, status.text, frozenset(request))
    except Failed as why:
        return NoAnswer(str(why), reader.text)
    except Broken as why:
        said = _quote(why.said, server, scrubber)
        return NoAnswer(f"{server.host}: the answer {why.what}{said}; {NEXT.get(why.what, OTHERWISE)}.", reader.text)
    if reader.finish == "length":
        sentence = f"{server.host}: the model ran out of room for its answer; raise max-tokens, or take a model with a longer context."
        return NoAnswer(sentence, reader.text)
    if reader.finish == "content_filter":
        return NoAnswer(f"{server.host}: a filter of the server stopped the answer; try --no-source, or another model.", reader.text)
    return Answer(reader.text, reader.calls, reader.finish or "stop", reader.tokens, shape.form)


def _simpler(status: _Refusal, shape: _Shape) -> _Shape | None:
    """The request without what the server does not know: what its words name, else the next thing that not every server knows."""
    said = status.text.lower()
    if status.status not in (400, 404, 415, 422, 500, 501) or _too_long(said):
        return None
    for name, part, signs in UNKNOWN:
        if any(sign in said for sign in signs) and (part or shape.bound) in status.request:
            return shape.without(name)
    if status.status in (400, 422):
        for name, part, _ in reversed(UNKNOWN):
            if (part or shape.bound) in status.request:
                return shape.without(name)
    return None


def _too_long(said: str) -> bool:
    return "context" in said and any(word in said for word in ("length", "window", "exceed"))


def _rest(status: _Refusal) -> float | None:
    """Seconds after which the same request is worth sending again; None: it is not."""
    if status.status not in (408, 429, 500, 502, 503, 504, 529) or "insufficient_quota" in status.text:
        return None
    wanted = _wanted(status.headers)
    if wanted is None:
        return None if status.status == 429 else PAUSE
    return wanted if wanted <= WAIT else None


def _wanted(headers: dict[str, str]) -> float | None:
    """Seconds that the server wants to be left alone: retry-after-ms, or Retry-After as a number or a date."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
            return float(text) / scale
    try:
        return max(0.0, email.utils.parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return None


def _refused(server: Server, status: _Refusal, scrubber: Scrubber) -> str:
    """What a status means for the user."""
    host, code, said = server.host, status.status, _quote(_message(status.text), server, scrubber)
    if 300 <= code < 400:
        where = re.match(r"https?://[A-Za-z0-9.:-]+", status.headers.get("location", ""))
        to = scrubber.scrub(where[0]) if where else "another address"
        return f"{host} sends the request on to {to}, which is not followed ({code}); name that as base URL if the report may go there."
    if _too_long(status.text.lower()):
        return f"{host}: the report is too long for the model {server.model}{said}; take a model with a longer context, or --no-source."
    if code == 401:
        sent = "does not accept the key" if server.has_key else "wants a key, and none is set"
        return f"{host} {sent} (401); set NUMDEBUG_API_KEY to a key that is valid there."
    if code == 403:
        return f"{host} does not allow this (403{said}); check what the key may do, or take another model."
    if code == 404:
        model = one_line(server.model)
        return f"{host} has no model {model!r} or no such path (404{said}); check --model and the base URL, which mostly ends in /v1."
    if code == 407:
        return f"the proxy on the way to {host} wants a password (407); check HTTPS_PROXY."
    if code == 413:
        return f"{host}: the report is too long for the server (413{said}); try --no-source."
    if code == 429 and "insufficient_quota" in status.text:
        return f"{host}: the account's quota is used up (429); check its plan and billing, or take another server."
    if code == 429:
        wanted = _wanted(status.headers)
        when = f"in {math.ceil(wanted)} s" if wanted is not None else "later"
        return f"{host} has had too many requests (429{said}); try again {when}."
    if code >= 500:
        return f"{host} failed ({code}{said}); try again later, or look into the server's log."
    return f"{host} refuses the request ({code}{said}); try another model or server."


def _message(text: str) -> str:
    """What an error's body says, without its wrapping. Web pages say nothing."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.lstrip().startswith("<") else text
    for name in ("error", "detail", "message"):
        if isinstance(told, dict) and name in told:
            told = told[name]
    if isinstance(told, dict):
        told = told.get("message")
    return told if isinstance(told, str) else ""


def _quote(said: str, server: Server, scrubber: Scrubber) -> str:
    """What the server or the model says, as data: without the key, scrubbed, on one line, short."""
    text = one_line(scrubber.scrub(said.replace(server.key, "<key>") if server.has_key else said))
    return f": {text[: QUOTED - 1] + '…' if len(text) > QUOTED else text}" if text else ""


def _load() -> None:
    try:
        importlib.import_module("openai")
    except ImportError as why:
        if why.name == "openai":
            raise NoAnswer("asking a model needs the openai package, which is not installed; run: pip install 'numdebug[llm]'") from None
        raise NoAnswer(f"the openai package lacks {why.name}; run: pip install --upgrade 'numdebug[llm]'") from None
    except Exception as why:  # whatever a broken installation raises while it is loaded
        raise NoAnswer(f"the openai package cannot be loaded ({type(why).__name__}); run: pip install --upgrade 'numdebug[llm]'") from None
