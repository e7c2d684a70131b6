"""One request to a server, over the openai package: what comes back, in pieces, within bounds of time and size.

The request runs in a thread of its own, so that nothing (a name server, a proxy, a server that sends one byte a minute) can hold up the
caller beyond its time, and Ctrl-C works at once. Nothing of the openai package's exceptions, which hold the request with its headers, and
of its log records leaves this file.
"""

from __future__ import annotations

import logging
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from numdebug import __version__
from numdebug.explain.settings import OPENAI, Server

CONNECT = 10.0  # seconds until a connection stands
SILENCE = 30.0  # seconds between two pieces of an answer that has begun; at most half of the server's time
MOST = 32 * 2**20  # bytes of one answer with everything around it: a thousand times a long explanation
MOST_OF_ERROR = 64 * 2**10  # bytes of an error's text that are read
LOOK = 0.1  # seconds between two looks at the clock
MORE_TIME = "allow more with timeout under [explain] in your configuration file"
LOGGERS = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")
# All that is sent besides the body: no project, organisation, platform or versions (to api.openai.com those that the user has set).
HEADERS = ("host", "content-type", "content-length", "transfer-encoding", "connection", "accept", "x-stainless-raw-response")
OF_OPENAI = ("openai-organization", "openai-project")


class Failed(Exception):
    """No answer came, or it broke off: one sentence."""


class Status(Exception):
    """The server answered with another status than success. `text` is what it said, `headers` have lower-case names."""

    def __init__(self, status: int, headers: dict[str, str], text: str) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.text = text


@dataclass
class Reply:
    """A successful answer: its content type, and its pieces as they come."""

    kind: str
    pieces: Iterator[bytes]


@dataclass
class _Line:
    """What both threads share."""

    box: queue.Queue[Any] = field(default_factory=lambda: queue.Queue(16))
    over: threading.Event = field(default_factory=threading.Event)
    stream: Any = None  # the connection, as soon as there is one

    def put(self, item: object) -> None:
        while not self.over.is_set():
            with suppress(queue.Full):
                self.box.put(item, timeout=LOOK)
                return

    def hang_up(self) -> None:
        """Wake the other thread and tell the server that nobody listens any more."""
        self.over.set()
        wire = self.stream.get_extra_info("socket") if self.stream is not None else None
        if wire is not None:
            with suppress(OSError, ValueError):
                wire.shutdown(socket.SHUT_RDWR)


@contextmanager
def post(server: Server, body: dict[str, Any], until: float) -> Iterator[Reply]:
    """Send `body` and give what comes back. Raises Failed, and Status for every status but 2xx; `until` is on the monotonic clock."""
    import openai

    line = _Line()
    with _quiet():
        thread = threading.Thread(target=_talk, args=(openai, server, body, until, line), name="numdebug-explain", daemon=True)
        thread.start()
        try:
            kind = _take(line, server, until, None)
            yield Reply(cast(str, kind), _pieces(line, server, until))
        finally:
            line.hang_up()
            thread.join(LOOK)


def _pieces(line: _Line, server: Server, until: float) -> Iterator[bytes]:
    size = 0
    pause = None  # the first piece may take as long as the whole: a small machine reads a long prompt slowly
    while (piece := _take(line, server, until, pause)) is not None:
        size += len(piece)
        if size > MOST:
            raise Failed(f"{server.host} sent an answer without end; it was cut off. Try another model.")
        yield piece
        pause = min(SILENCE, server.timeout / 2)


def _take(line: _Line, server: Server, until: float, pause: float | None) -> Any:
    """The next thing that the other thread has to say; exceptions are raised here."""
    stalled = float("inf") if pause is None else time.monotonic() + pause
    while True:
        now = time.monotonic()
        if now >= until:
            raise Failed(f"{server.host} did not answer in full within {server.timeout:g} s; try again, or {MORE_TIME}.")
        if now >= stalled:
            raise Failed(f"{server.host} fell silent for {pause:g} s in the middle of its answer; try again.")
        with suppress(queue.Empty):
            item = line.box.get(timeout=max(0.0, min(LOOK, until - now, stalled - now)))
            if isinstance(item, Exception):
                raise item
            return item


def _talk(openai: Any, server: Server, body: dict[str, Any], until: float, line: _Line) -> None:
    """In the thread: put the content type, the pieces and None; or an exception."""
    client = None
    try:
        client = _client(openai, server, until, line)
        with client.chat.completions.with_streaming_response.create(**body) as response:
            raw = response.http_response
            if raw.headers.get("content-encoding", "identity").lower() != "identity":
                raise Failed(f"{server.host} sent a compressed answer, which was not asked for; check what lies between you and it.")
            line.put(raw.headers.get("content-type", ""))
            for piece in raw.iter_raw():
                line.put(piece)
                if line.over.is_set():
                    return
            line.put(None)
    except Exception as error:
        told = _told(error, server)
        if client is None and not server.local:  # nothing was sent yet: what is read before that is the environment's proxies
            told = Failed(f"no connection to {server.host} can be made ready; check HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE.")
        line.put(told)
    finally:
        if client is not None:
            client.close()


def _client(openai: Any, server: Server, until: float, line: _Line) -> Any:
    left = max(0.1, until - time.monotonic())
    local: dict[str, Any] = {"trust_env": False, "verify": _trust()} if server.local else {}  # a local server is reached without a proxy
    http = openai.DefaultHttpxClient(
        follow_redirects=False,
        event_hooks={"request": [_sparse(server, line)], "response": [_only_success]},
        **local,
    )
    return openai.OpenAI(
        api_key=server.key,
        base_url=server.base_url,
        timeout=openai.Timeout(left, connect=min(CONNECT, left)),
        max_retries=0,
        http_client=http,
    )


def _trust() -> ssl.SSLContext:
    """The system's certificates and those that SSL_CERT_FILE names."""
    return ssl.create_default_context()


def _sparse(server: Server, line: _Line) -> Callable[[Any], None]:
    """A hook that leaves only what is needed in the request's headers, and notes the connection."""
    kept = (*HEADERS, *OF_OPENAI) if server.base_url == OPENAI else HEADERS

    def note(name: str, info: dict[str, Any]) -> None:
        made = info.get("return_value")
        if name.endswith((".connect_tcp.complete", ".start_tls.complete")) and hasattr(made, "get_extra_info"):
            line.stream = made

    def hook(request: Any) -> None:
        for name in list(request.headers):
            if name.lower() not in kept:
                del request.headers[name]
        request.headers["accept-encoding"] = "identity"
        request.headers["authorization"] = f"Bearer {server.key}"
        request.headers["user-agent"] = f"numdebug/{__version__}"
        request.extensions["trace"] = note

    return hook


def _only_success(response: Any) -> None:
    """A hook that reads a bounded part of what any other answer says."""
    if 200 <= response.status_code < 300:
        return
    text = b""
    if "content-encoding" not in response.headers:
        for piece in response.iter_raw():
            text += piece
            if len(text) > MOST_OF_ERROR:
                break
    headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
    raise Status(response.status_code, headers, text[:MOST_OF_ERROR].decode("utf-8", "replace"))


def _told(error: Exception, server: Server) -> Exception:
    """`error` as something that may be shown: never its own words, which can hold the request's headers."""
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    names = {type(e).__name__ for e in chain}
    for one in chain:
        if isinstance(one, Status):
            return Status(one.status, one.headers, one.text)
        if isinstance(one, Failed):
            return Failed(*one.args)
    return Failed(_sentence(chain, names, server))


def _sentence(chain: list[BaseException], names: set[str], server: Server) -> str:
    host = server.host

    def met(*kinds: type[BaseException]) -> bool:
        return any(isinstance(e, kinds) for e in chain)

    if "ProxyError" in names:
        return f"the proxy on the way to {host} refuses; check HTTPS_PROXY, ALL_PROXY and NO_PROXY."
    if met(ssl.SSLCertVerificationError):
        return f"{host} is not who it says: its certificate cannot be verified; check the address, or name your authority in SSL_CERT_FILE."
    if met(ssl.SSLError):
        return f"no secure connection to {host} could be made; check the address, and whether it wants http:// instead of https://."
    if met(socket.gaierror, UnicodeError):
        return f"no machine is called {server.host}, or there is no network; check the base URL and the connection."
    if met(ConnectionRefusedError):
        return f"nothing listens at {host}; start the server there, or check the base URL."
    if "ConnectTimeout" in names:
        return f"{host} cannot be reached: no connection within {CONNECT:g} s; check the base URL and the network."
    if met(TimeoutError) or any("Timeout" in name for name in names):
        return f"{host} did not answer within {server.timeout:g} s; try again, or {MORE_TIME}."
    if names & {"RemoteProtocolError", "ReadError", "WriteError", "ConnectionResetError", "BrokenPipeError"}:
        return f"{host} broke off the connection or does not speak HTTP; try again, and check the base URL and the server's log."
    if names & {"ConnectError", "NetworkError"} or met(OSError):
        return f"{host} cannot be reached; check the base URL and the network."
    return f"asking {host} failed inside the openai package ({type(chain[-1]).__name__}); try another version of it."


@contextmanager
def _quiet() -> Iterator[None]:
    """Inside, the HTTP packages log nothing: at DEBUG their records hold the prompt and headers."""
    every = [n for n in list(logging.root.manager.loggerDict) if n.split(".")[0] in LOGGERS]
    loggers = [logging.getLogger(n) for n in {*every, *LOGGERS}]
    before = [(logger, logger.disabled, logger.level) for logger in loggers]
    for logger in loggers:
        logger.disabled = True
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, disabled, level in before:
            logger.disabled = disabled
            logger.setLevel(level)
