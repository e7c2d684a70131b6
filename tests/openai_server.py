"""An OpenAI-compatible server on this machine for the tests: it answers as it is told and keeps what it was sent, byte for byte.

    with OpenAIServer() as server:
        server.script(says("Hello"), status(429, headers={"Retry-After": "0"}))
        ... a client of server.url ...
        server.requests[0].json

An answer is a function of the handler and the request's JSON. When the script is used up, the last answer is given again.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LONGEST = 10.0  # seconds after which an answer that never ends does end


@dataclass(frozen=True)
class Request:
    """One request as it came off the wire."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)

    @property
    def key(self) -> str | None:
        """What stands after Bearer."""
        value = {n.lower(): v for n, v in self.headers}.get("authorization")
        return None if value is None else value.removeprefix("Bearer ")

    @property
    def raw(self) -> str:
        """All of it as text, in which to look for what must not be there."""
        return "\n".join([self.path, *(f"{n}: {v}" for n, v in self.headers), self.body.decode("utf-8", "replace"), _unescaped(self.body)])


def _unescaped(body: bytes) -> str:
    texts: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            for name, item in value.items():
                texts.append(name)
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    with suppress(ValueError):
        walk(json.loads(body))
    return "\n".join(texts)


class Handler(BaseHTTPRequestHandler):
    """Keeps each request, then plays the next answer of the script."""

    protocol_version = "HTTP/1.1"
    server: _Threads

    def do_POST(self) -> None:
        """A question."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.owner.requests.append(Request(self.command, self.path, list(self.headers.items()), body))
        asked: dict[str, Any] = {}
        with suppress(ValueError):
            asked = json.loads(body)
        with suppress(ConnectionError, TimeoutError):
            self.server.owner.next()(self, asked)

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr."""

    def start(self, code: int, kind: str, headers: dict[str, str] | None = None, length: int | None = None) -> None:
        """The head of an answer; without a length the body comes in chunks."""
        self.send_response(code)
        self.send_header("Content-Type", kind)
        if length is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        """One chunk of a body."""
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def event(self, value: object) -> None:
        """One server-sent event."""
        self.chunk(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode())

    def finish_chunks(self) -> None:
        """The end of the body."""
        self.chunk(b"")

    def hang_up(self) -> None:
        """Break the connection off."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def wait(self, seconds: float = LONGEST) -> bool:
        """Sleep, but end with the server; whether the server still runs."""
        return not self.server.owner.over.wait(seconds)


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: OpenAIServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is nothing to print."""


Reply = Callable[[Handler, dict[str, Any]], None]


class OpenAIServer:
    """Listens on 127.0.0.1 while the context is open."""

    def __init__(self, *replies: Reply) -> None:
        self.requests: list[Request] = []
        self.over = threading.Event()
        self._replies = list(replies)
        self._lock = threading.Lock()

    def __enter__(self) -> OpenAIServer:
        self._server = _Threads(("127.0.0.1", 0), Handler)
        self._server.owner = self
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, *replies: Reply) -> None:
        """What to answer from now on."""
        with self._lock:
            self._replies = list(replies)
            self.requests.clear()

    def next(self) -> Reply:
        """The next answer."""
        with self._lock:
            if not self._replies:
                return status(500, "no answer was scripted")
            return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


# --- Answers that are as they should be --------------------------------------------------------------------------------------------------


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One event of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}


def events(*values: object, done: bool = True, pause: float = 0.0) -> Reply:
    """A stream of these events."""

    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        handler.start(200, "text/event-stream; charset=utf-8")
        for value in values:
            handler.event(value)
            if pause and not handler.wait(pause):
                return
        if done:
            handler.event("[DONE]")
        handler.finish_chunks()

    return reply


def pieces(text: str, size: int) -> Iterable[str]:
    """`text` in pieces of `size` characters."""
    return (text[i : i + size] for i in range(0, len(text), size))


def says(text: str, size: int = 7, finish: str = "stop", usage: dict[str, int] | None = None, pause: float = 0.0) -> Reply:
    """`text`, streamed."""
    last = [] if usage is None else [{"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": usage}]
    first = chunk({"role": "assistant", "content": ""})
    return events(first, *(chunk({"content": p}) for p in pieces(text, size)), chunk({}, finish), *last, pause=pause)


def calls(*wanted: tuple[str, str, str], size: int = 4) -> Reply:
    """Tool calls (id, name, arguments), the arguments split over many events and the calls interleaved."""
    begun = [
        chunk({"tool_calls": [{"index": i, "id": name, "type": "function", "function": {"name": function, "arguments": ""}}]})
        for i, (name, function, _) in enumerate(wanted)
    ]
    parts = [(i, piece) for i, (_, _, arguments) in enumerate(wanted) for piece in pieces(arguments, size)]
    parts.sort(key=lambda part: part[0] % 2 == 0)
    more = [chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]}) for i, piece in parts]
    return events(*begun, *more, chunk({}, "tool_calls"))


def whole(message: dict[str, Any], finish: str = "stop", kind: str = "application/json", **more: Any) -> Reply:
    """An answer in one JSON document, whether a stream was asked for or not."""
    document = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return raw(json.dumps({**document, "choices": [choice], **more}).encode(), kind)


# --- Answers that are not ------------------------------------------------------------------------------------------------------------


def raw(data: bytes, kind: str, code: int = 200, headers: dict[str, str] | None = None) -> Reply:
    """These bytes."""

    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        handler.start(code, kind, headers, len(data))
        handler.wfile.write(data)

    return reply


def status(number: int, message: str = "", headers: dict[str, str] | None = None, **fields: str) -> Reply:
    """An error as OpenAI words it."""
    return raw(json.dumps({"error": {"message": message, "type": "error", **fields}}).encode(), "application/json", number, headers)


def page(code: int = 200) -> Reply:
    """A web page."""
    return raw(b"<!DOCTYPE html><html><body>Welcome</body></html>", "text/html", code)


def refuses(*parts: str, then: Reply, code: int = 400, named: bool = True) -> Reply:
    """`then` for a request without any of `parts` (a field's name, or a type of response_format), else an error that names it, or not."""

    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        form = asked.get("response_format") or {}
        for part in parts:
            if part in asked or part == form.get("type") or (part == "schema" and "schema" in form):
                return status(code, f"unknown parameter: {part}" if named else "bad request")(handler, asked)
        return then(handler, asked)

    return reply


def cut(text: str = "half of", politely: bool = False) -> Reply:
    """A stream that breaks off: the connection goes, or (politely) the body just ends."""

    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        handler.start(200, "text/event-stream")
        handler.event(chunk({"content": text}))
        if politely:
            handler.finish_chunks()
        else:
            handler.hang_up()

    return reply


def silent(after: str | None = None) -> Reply:
    """Nothing at all; or a head, the text `after`, and then nothing."""

    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        if after is not None:
            handler.start(200, "text/event-stream")
            handler.event(chunk({"content": after}))
        handler.wait()
        handler.hang_up()

    return reply


def trickles(part: str = "events", pause: float = 0.05) -> Reply:
    """Something small for ever: events, comments, bytes (of one event), head (of the answer), body (of JSON) or error (its text)."""

    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        end = time.monotonic() + LONGEST
        if part == "head":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        else:
            code, kind = (500, "text/plain") if part == "error" else (200, "application/json" if part == "body" else "text/event-stream")
            handler.start(code, kind)
        while time.monotonic() < end and handler.wait(pause):
            if part == "head":
                handler.wfile.write(b"x")
            elif part == "events":
                handler.event(chunk({"content": "and "}))
            else:
                handler.chunk(b": alive\n\n" if part == "comments" else b" " if part == "body" else b"x")

    return reply


def endless(part: str = "events") -> Reply:
    """As much as fits down the wire: events with text, one event without an end (line), or an error's text (error)."""

    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        end = time.monotonic() + LONGEST
        handler.start(500 if part == "error" else 200, "text/event-stream")
        if part == "line":
            handler.chunk(b"data: ")
        event = f"data: {json.dumps(chunk({'content': 'word ' * 2000}))}\n\n".encode()
        while time.monotonic() < end and not handler.server.owner.over.is_set():
            handler.chunk(event if part == "events" else b"x" * 65536)

    return reply


def redirect(to: str, code: int = 307) -> Reply:
    """Somewhere else."""
    return raw(b"", "text/plain", code, {"Location": to})
