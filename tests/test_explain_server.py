"""Asking a server over real HTTP: what goes down the wire, what comes back, and every way in which nothing does."""

# ruff: noqa: E501  (an answer of a server a line)

from __future__ import annotations

import email.utils
import json
import logging
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest
from openai_server import (
    OpenAIServer,
    Reply,
    calls,
    chunk,
    cut,
    endless,
    events,
    page,
    raw,
    redirect,
    refuses,
    says,
    silent,
    status,
    trickles,
    whole,
)

from numdebug.explain import server as asking
from numdebug.explain.scrub import Person, Scrubber
from numdebug.explain.server import Answer, Call, NoAnswer, ask, body, tokens
from numdebug.explain.settings import Server

KEY = "sk-" + "planted-0123456789-abcdef"
QUESTION = [{"role": "system", "content": "You explain."}, {"role": "user", "content": "Why is the loss nan?"}]
SCHEMA = {"name": "explanation", "strict": True, "schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
TOOLS = [{"type": "function", "function": {"name": "probe", "parameters": {"type": "object", "properties": {}}}}]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """Whatever proxies the tests themselves run behind."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="module")
def http():
    """One server for all; each test says what it answers."""
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def at(http):
    """Ask it under a script: the answer, or the NoAnswer."""

    def asked(*script: Reply, timeout: float = 5.0, **more):
        http.script(*script)
        try:
            return ask(Server(http.url, "m", KEY, timeout), QUESTION, **more)
        except NoAnswer as none:
            return none

    return asked


# --- Answers -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_text_streams_as_it_is(at, size):
    text = 'The loss is nan: log(0) — "क्यों?"\n\tline\\n {} \u2028 end\r\n'
    heard: list[str] = []
    answer = at(says(text, size), heard=heard.append)
    assert answer == Answer(text, (), "stop")
    assert "".join(heard) == text
    assert len(heard) == -(-len(text) // size)


def test_pieces_are_heard_while_the_model_is_still_speaking(at, http):
    times: list[float] = []
    at(says("abcdef", 1, pause=0.05), heard=lambda text: times.append(time.monotonic()))
    assert times[-1] - times[0] > 0.15


def test_what_the_listener_raises_goes_through(http):
    def stop(text: str) -> None:
        raise LookupError("enough")

    http.script(says("abcdef", 1))
    with pytest.raises(LookupError, match="enough"):
        ask(Server(http.url, "m"), QUESTION, heard=stop)


def test_tool_calls_split_over_many_events_are_put_together(at):
    wanted = (("call_1", "probe", '{"name": "formats", "as": "bfloat16"}'), ("call_2", "probe", '{"x": "é"}'), ("call_3", "other", "{}"))
    for size in (1, 4, 100):
        assert at(calls(*wanted, size=size), tools=TOOLS).calls == tuple(Call(*call) for call in wanted)


@pytest.mark.parametrize(
    "parts",
    [
        [{"id": "a", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "function": {"name": "g", "arguments": "{}"}}],  # no index
        [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}, {"index": 0, "id": "b", "function": {"name": "g", "arguments": "{}"}}],  # all 0
        [{"index": 0, "id": "a", "function": {"name": "f", "arguments": {}}}, {"index": 1, "id": "b", "function": {"name": "g", "arguments": {}}}],  # objects
        [{"index": 1, "id": "a", "function": {"name": "f", "arguments": "{"}}, {"index": 1, "function": {"arguments": "}"}}, {"index": 2, "id": "b", "function": {"name": "g", "arguments": "{}"}}],  # from 1
    ],
)  # fmt: skip
def test_tool_calls_in_other_servers_spellings(at, parts):
    answer = at(events(*(chunk({"tool_calls": [part]}) for part in parts), chunk({}, "tool_calls")), tools=TOOLS)
    assert answer.calls == (Call("a", "f", "{}"), Call("b", "g", "{}"))


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream"])
def test_a_server_that_cannot_stream_is_understood(at, kind):
    heard: list[str] = []
    usage = {"prompt_tokens": 11, "completion_tokens": 2}
    assert at(whole({"content": "Hi."}, kind=kind, usage=usage), heard=heard.append) == Answer("Hi.", (), "stop", (11, 2))
    assert heard == ["Hi."]
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert at(whole({"content": None, "tool_calls": [call]}, "tool_calls", kind)).calls == (Call("a", "f", "{}"),)


def test_the_servers_count_of_tokens_is_passed_on(at):
    assert at(says("Hi.", usage={"prompt_tokens": 7, "completion_tokens": 3})).tokens == (7, 3)


@pytest.mark.parametrize(
    "reply",
    [
        events(chunk({"content": "Hi."}), chunk({}, "stop"), done=False),  # no [DONE]
        events(chunk({"content": "Hi."})),  # no finish_reason
        events(chunk({"content": [{"type": "text", "text": "Hi."}]}, "stop")),
        events(chunk({"content": "Hi.", "reasoning_content": "Hm."}, "stop")),
        raw(b': ping\r\n\r\nevent: x\r\ndata:{"choices":[{"delta":{"content":"Hi."},"finish_reason":"stop"}]}\r\n\r\ndata: [DONE]', "text/event-stream"),
        raw(b'data: {"choices":\ndata: [{"delta":{"content":"Hi."},"finish_reason":"stop"}]}\n\n', "text/event-stream"),
        raw(b'data: {"choices":[{"index":0,"delta":{"content":"Hi."},"finish_reason":"stop"},{"index":1,"delta":{"content":"no"}}]}\n\n', ""),
    ],
)  # fmt: skip
def test_streams_in_other_servers_spellings(at, reply):
    assert at(reply).text == "Hi."


# --- The request ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("schema", "tools", "bound"), [(None, None, None), (SCHEMA, None, 500), (None, TOOLS, None), (SCHEMA, TOOLS, 7)])
def test_what_dry_run_shows_is_what_is_sent(http, schema, tools, bound):
    server = Server(http.url, "m", KEY, max_tokens=bound)
    http.script(says("Hi."))
    ask(server, QUESTION, schema, tools)
    (sent,) = http.requests
    assert sent.json == body(server, QUESTION, schema, tools)
    assert sent.path == "/v1/chat/completions"
    assert sent.key == KEY
    assert sent.json["stream"] is True
    assert sent.json.get("max_tokens") == bound
    assert sent.json.get("response_format") == (schema and {"type": "json_schema", "json_schema": schema})


def test_nothing_else_is_sent(http, monkeypatch):
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "OPENAI_WEBHOOK_SECRET"):
        monkeypatch.setenv(name, "planted-elsewhere")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Planted: planted-elsewhere")
    http.script(says("Hi."))
    ask(Server(http.url, "m", KEY), QUESTION)
    (sent,) = http.requests
    assert "planted-elsewhere" not in sent.raw
    names = {name.lower() for name, _ in sent.headers}
    assert names == {
        "host", "connection", "accept", "accept-encoding", "content-type", "content-length", "authorization", "user-agent",
        "x-stainless-raw-response",
    }  # fmt: skip


def test_a_server_without_a_key_gets_a_placeholder(http, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    http.script(says("Hi."))
    ask(Server(http.url, "m"), QUESTION)
    assert http.requests[0].key == "none"
    assert KEY not in http.requests[0].raw


def test_secrets_do_not_go_down_the_wire(http, monkeypatch):
    monkeypatch.setenv("MY_SERVICE_TOKEN", "planted-service-token-7")
    monkeypatch.setenv("HOME", "/home/planted")
    monkeypatch.setenv("USER", "planted")
    monkeypatch.setenv("HOSTNAME", "planted-host-1")
    planted = (
        "planted-service-token-7 /home/planted/x.py planted@planted-host-1: planted-host-1 a.planted@example.com password='planted-pw'"
    )
    messages = [
        {"role": "system", "content": f"Report: {planted}"},
        {"role": "user", "content": [{"type": "text", "text": f"{planted} {KEY}"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps({"x": planted})}}]},
        {"role": "tool", "tool_call_id": "c", "content": json.dumps({"file": planted, "token": KEY})},
    ]  # fmt: skip
    tools = [{"type": "function", "function": {"name": "f", "description": planted, "parameters": {}}}]
    http.script(refuses("json_schema", "json_object", "tools", "temperature", then=says("Hi.")))
    ask(Server(http.url, "m", KEY), messages, {**SCHEMA, "description": planted}, tools)
    assert len(http.requests) >= 4
    for sent in http.requests:
        assert "planted" not in sent.raw.replace(KEY, "", 1), "only the header holds the key"


def test_a_scrubber_of_ones_own_is_used_and_counts(http):
    scrubber = Scrubber(("do-not-tell",), Person())
    http.script(says("Hi."))
    ask(Server(http.url, "m"), [{"role": "user", "content": "do-not-tell this"}], scrubber=scrubber)
    assert http.requests[0].json["messages"][0]["content"] == "<secret> this"
    assert scrubber.counts == {"secret": 1}


def test_the_size_is_counted_in_bytes():
    request = {"model": "m", "messages": [{"role": "user", "content": "x" * 3000}], "stream": True}
    assert 1000 <= tokens(request) <= 1020
    request["messages"][0]["content"] = "क" * 1000
    assert 1000 <= tokens(request) <= 1020


# --- Servers that do not know everything -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [400, 404, 422, 500])
@pytest.mark.parametrize(
    ("parts", "form", "with_tools"),
    [
        (("json_schema",), "json_object with schema", True),
        (("json_schema", "schema"), "json_object", True),
        (("response_format",), "text", True),
        (("tools",), "json_schema", False),
        (("tools", "response_format", "temperature", "max_tokens"), "text", False),
    ],
)
def test_what_a_server_names_as_unknown_is_left_out(http, code, parts, form, with_tools):
    http.script(refuses(*parts, then=says("{}"), code=code))
    answer = ask(Server(http.url, "m", KEY, max_tokens=50), QUESTION, SCHEMA, TOOLS)
    assert (answer.text, answer.form) == ("{}", form)
    last = http.requests[-1].json
    assert ("tools" in last) == with_tools
    assert (last.get("response_format") or {}).get("type", "text") == form.removesuffix(" with schema")
    assert ("schema" in last.get("response_format", {})) == form.endswith(" with schema")
    if form != "json_schema":
        assert json.dumps(SCHEMA["schema"]) in last["messages"][-1]["content"], "the schema is told in words"
    assert QUESTION[1]["content"] == "Why is the loss nan?", "the caller's messages stay as they are"


@pytest.mark.parametrize("code", [400, 422])
@pytest.mark.parametrize("parts", [("json_schema", "json_object"), ("tools",), ("json_schema", "json_object", "tools", "temperature")])
def test_a_refusal_without_a_reason_is_answered_by_asking_for_less(at, code, parts):
    assert at(refuses(*parts, then=says("{}"), code=code, named=False), schema=SCHEMA, tools=TOOLS).text == "{}"


def test_the_newer_name_of_the_bound_is_tried(http):
    http.script(refuses("max_tokens", then=says("Hi.")))
    assert ask(Server(http.url, "m", max_tokens=5), QUESTION).text == "Hi."
    assert http.requests[-1].json["max_completion_tokens"] == 5


# --- Every way in which there is no answer -----------------------------------------------------------------------------------------------

# script, what must be said, requests that are sent
FAILURES: dict[str, tuple[tuple[Reply, ...], list[str], int]] = {
    "401": ((status(401, f"Incorrect API key: {KEY}"),), ["does not accept the key (401)", "NUMDEBUG_API_KEY"], 1),
    "403": ((status(403, "not for you"),), ["403: not for you", "check what the key may do"], 1),
    "404": ((status(404, "The model `m` does not exist"),), ["no model 'm'", "404: The model `m` does not exist", "--model", "/v1"], 1),
    "404 page": ((page(404),), ["no such path (404)", "/v1"], 1),
    "429 for long": ((status(429, "slow down", {"Retry-After": "77"}),), ["too many requests (429: slow down)", "in 77 s"], 1),
    "429 without end": ((status(429, "no", {"Retry-After": "0.1"}),), ["too many requests"], 2),
    "429 without a time": ((status(429, "no"),), ["try again later"], 1),
    "429 nonsense": ((status(429, "no", {"Retry-After": "soon"}),), ["try again later"], 1),
    "429 quota": ((status(429, "pay", code="insufficient_quota", headers={"Retry-After": "0"}),), ["quota is used up", "billing"], 1),
    "500": ((status(500, "boom"),), ["failed (500: boom)", "server's log"], 2),
    "503 for long": ((status(503, "busy", {"Retry-After": "600"}),), ["failed (503: busy)"], 1),
    "400": ((status(400, "no such thing"),), ["refuses the request (400: no such thing)"], 6),
    "too long": ((status(400, "This model's maximum context length is 4096 tokens"),), ["too long for the model m", "--no-source"], 1),
    "413": ((status(413),), ["too long for the server", "--no-source"], 1),
    "redirect": ((redirect("http://elsewhere.example/v1/chat"),), ["on to http://elsewhere.example, which is not followed"], 1),
    "page": ((page(),), ["is a web page", "/v1"], 1),
    "no JSON": ((raw(b"OK", "application/json"),), ["is not JSON", "OpenAI-compatible"], 1),
    "no events": ((raw(b"OK\n", "text/plain"),), ["is not a stream of events"], 1),
    "other JSON": ((raw(b'{"status": "ok"}', "application/json"),), ["is not what an OpenAI-compatible server sends"], 1),
    "a list": ((events([1, 2]),), ["is not what an OpenAI-compatible server sends"], 1),
    "nothing": ((raw(b"", "text/event-stream"),), ["is empty"], 1),
    "no text": ((says(" \n"),), ["is empty"], 1),
    "malformed": ((events(chunk({"content": "a"}), "{'choices': ["),), ["an event that is not JSON"], 1),
    "deep": ((events("[" * 100_000),), ["an event that is not JSON"], 1),
    "error in the stream": ((events(chunk({"content": "a"}), {"error": {"message": "overloaded"}}),), ["ends in an error: overloaded"], 1),
    "refusal": ((events(chunk({"refusal": "I "}), chunk({"refusal": "can't."}), chunk({}, "stop")),), ["is a refusal: I can't."], 1),
    "length": ((says("half", finish="length"),), ["ran out of room", "max-tokens"], 1),
    "filter": ((says("half", finish="content_filter"),), ["a filter of the server", "--no-source"], 1),
    "cut": ((cut(),), ["broke off"], 1),
    "cut politely": ((cut(politely=True),), ["broke off in the middle"], 1),
    "silent": ((silent(),), ["did not answer", "within 0.8 s", "timeout"], 1),
    "silent later": ((silent("a"),), ["fell silent"], 1),
    "trickle of events": ((trickles("events"),), ["did not answer in full within 0.8 s"], 1),
    "trickle of comments": ((trickles("comments"),), ["did not answer in full"], 1),
    "trickle of bytes": ((trickles("bytes"),), ["did not answer in full"], 1),
    "trickle of headers": ((trickles("head"),), ["did not answer in full"], 1),
    "trickle of JSON": ((trickles("body"),), ["did not answer in full"], 1),
    "trickle of an error": ((trickles("error"),), ["did not answer in full"], 1),
    "endless text": ((endless("events"),), ["is without end"], 1),
    "endless line": ((endless("line"),), ["is without end"], 1),
    "endless error": ((endless("error"),), ["failed (500"], 2),
    "compressed": ((raw(b"x", "text/event-stream", headers={"Content-Encoding": "gzip"}),), ["compressed"], 1),
    "tools in a strange way": ((events(chunk({"tool_calls": ["x"]})),), ["asks for a tool in a way"], 1),
    "the key": ((says(f"your key is {KEY}, isn't it", 4),), ["holds the key", "replace the key"], 1),
}  # fmt: skip


@pytest.mark.parametrize("what", FAILURES)
def test_no_answer_is_one_sentence_with_what_to_do(at, http, what, caplog):
    script, words, requests = FAILURES[what]
    caplog.set_level(logging.DEBUG)
    heard: list[str] = []
    begin = time.monotonic()
    slow = what.startswith(("silent", "trickle"))
    none = at(*script, timeout=0.8 if slow else 8.0, schema=SCHEMA, tools=TOOLS, heard=heard.append)
    assert time.monotonic() - begin < 6.0
    assert isinstance(none, NoAnswer), none
    for word in words:
        assert word in str(none)
    assert str(none).startswith(f"127.0.0.1:{http.port}")
    assert str(none)[-1] in ".)"
    assert "\n" not in str(none)
    assert len(str(none)) < 420
    assert len(http.requests) == requests
    assert none.text == "".join(heard)
    everything = "".join(traceback.TracebackException.from_exception(none, capture_locals=True).format()) + caplog.text + "".join(heard)
    assert KEY not in everything
    assert none.__cause__ is None
    assert none.__context__ is None


def test_a_second_request_is_sent_where_that_helps(at, http):
    later = email.utils.format_datetime(email.utils.localtime())
    for first in (
        status(429, headers={"Retry-After": "0.2"}),
        status(429, headers={"Retry-After": later}),
        status(500),
        status(503, headers={"retry-after-ms": "100"}),
    ):
        begin = time.monotonic()
        assert at(first, says("Hi.")).text == "Hi."
        assert len(http.requests) == 2
        assert time.monotonic() - begin < 5
    begin = time.monotonic()
    assert "too many requests" in str(at(status(429, headers={"Retry-After": "3"}), says("Hi."), timeout=1.0))
    assert time.monotonic() - begin < 2.5, "no time is left for waiting"


def test_the_connection_ends_with_the_question(at):
    for reply in (trickles("events"), silent(), silent("a"), trickles("head"), endless()):
        at(reply, timeout=0.3)
    end = time.monotonic() + 3
    while any(t.name == "numdebug-explain" for t in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.02)
    assert not [t for t in threading.enumerate() if t.name == "numdebug-explain"]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def said(base_url: str, timeout: float = 3.0) -> str:
    with pytest.raises(NoAnswer) as none:
        ask(Server(base_url, "m", KEY, timeout), QUESTION)
    assert KEY not in "".join(traceback.TracebackException.from_exception(none.value, capture_locals=True).format())
    return str(none.value)


def test_nobody_is_there(http, monkeypatch):
    def unknown(host: object, *more: object, **named: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert "nothing listens at" in said(f"http://127.0.0.1:{free_port()}/v1")
    assert "no secure connection" in said(http.url.replace("http:", "https:"))
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert "no machine is called nowhere.invalid" in said("https://nowhere.invalid/v1")


def test_something_else_than_http_is_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        assert "does not speak HTTP" in said(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with the openssl command, which is not here")
def test_a_certificate_that_nobody_vouches_for(tmp_path, http, monkeypatch):
    make = (
        "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run(["openssl", *make.split()], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with OpenAIServer(says("Hi.")) as server:
        server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
        base_url = f"https://localhost:{server.port}/v1"
        assert "its certificate cannot be verified" in said(base_url)
        assert not server.requests
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        assert ask(Server(base_url, "m", KEY), QUESTION).text == "Hi."


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_carries_the_key_nowhere(http, code):
    with OpenAIServer(says("Hi.")) as elsewhere:
        http.script(redirect(elsewhere.url.replace("127.0.0.1", "localhost") + "/chat/completions", code))
        assert "which is not followed" in said(http.url)
        http.script(redirect("/v1/other", code))
        assert "which is not followed" in said(http.url)
        assert not elsewhere.requests


def test_a_local_server_is_reached_without_a_proxy_and_another_through_it(http, monkeypatch):
    with OpenAIServer(says("from the proxy")) as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            monkeypatch.setenv(name.lower(), f"http://127.0.0.1:{proxy.port}")
        http.script(says("directly"))
        assert ask(Server(http.url, "m", KEY), QUESTION).text == "directly"
        assert not proxy.requests
        assert ask(Server("http://model.example/v1", "m"), QUESTION).text == "from the proxy"
        assert proxy.requests[0].path == "http://model.example/v1/chat/completions"
    monkeypatch.setenv("ALL_PROXY", "nonsense://x")
    monkeypatch.setenv("HTTP_PROXY", "nonsense://x")
    monkeypatch.setenv("http_proxy", "nonsense://x")
    assert "ALL_PROXY" in said("http://model.example/v1")
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    assert "model.example" in said("http://model.example/v1")


def test_a_name_server_that_does_not_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *more, **named: time.sleep(3))
    begin = time.monotonic()
    assert "did not answer in full within 0.3 s" in said("https://nowhere.invalid/v1", timeout=0.3)
    assert time.monotonic() - begin < 2


def test_the_openai_package_is_loaded_when_a_server_is_asked():
    code = "import sys, numdebug.explain.server; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"openai", "httpx", "httpx2", "pydantic"} & set(loaded)


def test_without_the_openai_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    assert "pip install 'numdebug[llm]'" in said("http://localhost:1/v1")


def test_a_broken_openai_package_is_told(monkeypatch):
    def broken(name: str) -> None:
        raise TypeError("metaclass conflict")

    monkeypatch.setattr(asking.importlib, "import_module", broken)
    assert "cannot be loaded (TypeError)" in said("http://localhost:1/v1")


CLIENT = """
import logging, sys, traceback
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
from numdebug.explain.server import ask
from numdebug.explain.settings import Server
print("ready", flush=True)
try:
    print(ask(Server(sys.argv[1], "m", sys.argv[2], 20.0), [{"role": "user", "content": "a private question"}]))
except Exception as error:
    traceback.print_exc()
    print("".join(traceback.TracebackException.from_exception(error, capture_locals=True).format()))
except KeyboardInterrupt:
    print("interrupted")
"""


def client(base_url: str, **env: str) -> subprocess.Popen[str]:
    root = Path(asking.__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", CLIENT, base_url, KEY],
        env={**os.environ, "PYTHONPATH": str(root), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("reply", [says("Hi."), status(401, f"bad {KEY}", {"X-Echo": KEY}), cut(), redirect("http://x.example")])
def test_neither_key_nor_question_is_ever_logged(http, reply):
    http.script(reply)
    output, _ = client(http.url, OPENAI_LOG="debug", HTTPX_LOG_LEVEL="trace", PYTHONDEVMODE="1").communicate(timeout=60)
    assert "ready" in output
    assert len(http.requests) == 1
    assert KEY not in output
    assert "a private question" not in output.replace("'content': 'a private question'", ""), output
    assert "DEBUG:openai" not in output
    assert "[openai" not in output
    assert "httpcore" not in output


def test_ctrl_c_works_at_once(http):
    http.script(silent("a"))
    running = client(http.url)
    assert running.stdout is not None
    while running.stdout.readline().strip() != "ready":
        pass
    end = time.monotonic() + 30
    while not http.requests and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.2)
    begin = time.monotonic()
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate(timeout=10)
    assert "interrupted" in output
    assert time.monotonic() - begin < 5


# --- A real model --------------------------------------------------------------------------------------------------------------------------

REAL = os.environ.get("NUMDEBUG_TEST_SERVER")


@pytest.mark.skipif(not REAL, reason="NUMDEBUG_TEST_SERVER names no server with a real model (docs/explaining-with-a-model.md)")
def test_a_real_model_answers():
    server = Server(str(REAL), os.environ.get("NUMDEBUG_TEST_MODEL", "default"), timeout=300.0, max_tokens=120)
    schema = {"name": "capital", "strict": True, "schema": {"type": "object", "additionalProperties": False, "required": ["capital"], "properties": {"capital": {"type": "string"}}}}  # fmt: skip
    heard: list[str] = []
    answer = ask(server, [{"role": "user", "content": "Which city is the capital of France? Answer as JSON."}], schema, heard=heard.append)
    assert len(heard) > 1, "it streams"
    assert "".join(heard) == answer.text
    assert isinstance(json.loads(answer.text)["capital"], str), "structured output"
    with pytest.raises(NoAnswer, match="ran out of room"):
        ask(Server(str(REAL), server.model, timeout=300.0, max_tokens=2), [{"role": "user", "content": "Count from one to a hundred."}])
