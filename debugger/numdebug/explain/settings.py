"""Which server is asked for an explanation, with which model and which key."""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from numdebug.errors import UserError
from numdebug.running import PRIVATE

OPENAI = "https://api.openai.com/v1"
TIMEOUT = 120.0  # seconds for one whole answer
PLACEHOLDER = "none"  # what a server without a key is sent: the openai package wants one
SETTINGS = ("base-url", "model", "api-key", "timeout", "max-tokens", "language")
HINT = "for instance --base-url http://localhost:8080/v1 --model NAME for a server on this machine, or OPENAI_API_KEY and --model NAME"

# Letters, digits and a port, and a path without a query: what every URL parser reads in the same way. No user name and password.
URL = re.compile(r"(https?)://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?", re.IGNORECASE)
SHORTEST_HELD = 8  # characters of a key that is looked for inside other variables' values


@dataclass(frozen=True)
class Server:
    """An OpenAI-compatible server. `timeout` is in seconds, for one whole answer; `key` is never shown."""

    base_url: str
    model: str
    key: str = field(default=PLACEHOLDER, repr=False)
    timeout: float = TIMEOUT
    max_tokens: int | None = None  # of the answer; None: the server decides

    @property
    def local(self) -> bool:
        """Whether it runs on this machine."""
        return is_local(self.base_url)

    @property
    def host(self) -> str:
        """Host and port, as a person would name the server."""
        return urlsplit(self.base_url).netloc

    @property
    def has_key(self) -> bool:
        """Whether a key of the user's is sent."""
        return self.key != PLACEHOLDER


@dataclass(frozen=True)
class Flags:
    """What the command line names; it wins over everything else."""

    base_url: str | None = None
    model: str | None = None
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Settings:
    """The server, or one sentence on what is missing. `notes` are for stderr; `hide` names what the program's environment must not hold."""

    server: Server | None = None
    missing: str = ""
    notes: tuple[str, ...] = ()
    language: str | None = None
    hide: tuple[str, ...] = PRIVATE


@dataclass(frozen=True)
class _Layer:
    """One place that settings come from, and how its values are called there."""

    base_url: str | None
    model: str | None
    key: str | None = field(repr=False)
    names: tuple[str, str]  # of the base URL and the key


class _Missing(Exception):
    """What keeps a server from being asked, in one sentence."""


def find(flags: Flags | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Flags before NUMDEBUG_* before OPENAI_* before the user's own file, each setting for itself. Raises UserError on a bad file.

    A key never goes where it was not meant for:

    - A key that stands beside a base URL (in the same place: both flags, both NUMDEBUG_*, both OPENAI_*, both in the file) belongs to
      that URL's scheme, host and port, and is used for no other.
    - A key that stands alone as --api-key, in NUMDEBUG_API_KEY or in the file was given to numdebug, for whatever base URL the user names.
    - OPENAI_API_KEY alone belongs to https://api.openai.com: many have it set for other tools.
    - No key is sent in the clear to another machine: http:// works with a key on this machine only.

    A project's pyproject.toml can set none of this: a repository that someone downloads must not choose where reports are sent.
    """
    flags = flags or Flags()
    file, notes = _read(_file(environ))
    layers = (
        _Layer(_clean(flags.base_url), _clean(flags.model), _clean(flags.key), ("--base-url", "--api-key")),
        _environment("NUMDEBUG", environ),
        _environment("OPENAI", environ),
        _Layer(file.get("base-url"), file.get("model"), _clean(file.get("api-key")), ("base-url", "api-key in your configuration file")),
    )
    language = file.get("language")
    try:
        server = _server(layers, file)
    except _Missing as what:
        return Settings(missing=str(what), notes=notes, language=language)
    return Settings(server, "", notes, language, hidden(server, environ))


def hidden(server: Server | None, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Environment variables that the observed program must not see: NUMDEBUG_API_KEY always, and whatever holds the key in use."""
    if server is None or not server.has_key:
        return PRIVATE
    holding = (n for n, v in environ.items() if v.strip() == server.key or (len(server.key) >= SHORTEST_HELD and server.key in v))
    return tuple(sorted({*PRIVATE, *holding}))


def is_local(base_url: str) -> bool:
    """Whether the host of `base_url` is this machine: localhost, *.localhost, 127.*, ::1 or 0.0.0.0."""
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _server(layers: tuple[_Layer, ...], file: Mapping[str, Any]) -> Server:
    where = next((layer for layer in layers if layer.base_url), None)
    base_url = _checked(where.base_url or "", where.names[0]) if where is not None else OPENAI
    key, holder, withheld = _key(layers, base_url)
    model = next((layer.model for layer in layers if layer.model), None)
    if where is None and key is None:
        raise _Missing(f"no server is set up to explain with; name one, {HINT}.")
    host = urlsplit(base_url).netloc
    if key is None and not is_local(base_url) and (withheld or _origin(base_url) == _origin(OPENAI)):
        why = f"{withheld} belongs to another server and is not sent there" if withheld else "it needs one"
        raise _Missing(f"no key for {host}: {why}; set NUMDEBUG_API_KEY to its key.")
    if model is None:
        raise _Missing(f"no model is named for {host}; say which with --model NAME or NUMDEBUG_MODEL.")
    if key is not None:
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise _Missing(f"the key in {holder} holds blanks or characters that no key has; copy it once more.")
        if base_url.startswith("http:") and not is_local(base_url):
            raise _Missing(
                f"the key in {holder} would travel to {host} unencrypted; use an https:// base URL, or a tunnel to a port of localhost."
            )
    return Server(base_url, model, key or PLACEHOLDER, float(file.get("timeout", TIMEOUT)), file.get("max-tokens"))


def _key(layers: tuple[_Layer, ...], base_url: str) -> tuple[str | None, str, str]:
    """The key for `base_url` and where it stands, or what else has one that is not for it."""
    withheld = ""
    for layer in layers:
        if layer.key is None:
            continue
        of_openai = layer.names[1] == "OPENAI_API_KEY"
        belongs = layer.base_url or (OPENAI if of_openai else None)
        if belongs is None or _origin(belongs) == _origin(base_url):
            return layer.key, layer.names[1], ""
        withheld = withheld or f"the key in {layer.names[1]}"
    return None, "", withheld


def _origin(base_url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(base_url.strip())
        return parts.scheme, (parts.hostname or "").rstrip("."), parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return "", base_url, None


def _checked(text: str, name: str) -> str:
    """A base URL in the one form that is used. What was given is not repeated: it may hold a password."""
    text = text.strip()
    match = URL.fullmatch(text)
    if match is None or (match[3] and int(match[3][1:]) > 65535):
        if "@" in text:
            raise _Missing(f"{name} holds a user name or password; leave them out and set NUMDEBUG_API_KEY.")
        if not re.match(r"https?://", text, re.IGNORECASE):
            raise _Missing(f"{name} must begin with http:// or https://, as in http://localhost:8080/v1.")
        raise _Missing(f"{name} is not a base URL; write it as https://HOST/v1, without blanks, ? and #.")
    scheme, host, port, path = (part or "" for part in match.groups())
    return f"{scheme.lower()}://{host.lower()}{port}{path.removesuffix('/').removesuffix('/chat/completions')}"


def _environment(prefix: str, environ: Mapping[str, str]) -> _Layer:
    url, model, key = (_clean(environ.get(f"{prefix}_{name}")) for name in ("BASE_URL", "MODEL", "API_KEY"))
    return _Layer(url, model, key, (f"{prefix}_BASE_URL", f"{prefix}_API_KEY"))


def _clean(text: str | None) -> str | None:
    return (text or "").strip() or None


def _file(environ: Mapping[str, str]) -> Path | None:
    """The user's own configuration file. A relative XDG_CONFIG_HOME counts as not set, as its specification says."""
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if not base.is_absolute():
        try:
            base = (Path(environ["HOME"]) if environ.get("HOME") else Path.home()) / ".config"
        except RuntimeError:  # a user id without a home, as in some containers
            return None
    return base / "numdebug" / "config.toml"


def _read(file: Path | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Table [explain] of the user's file, checked, and a note where others may read a key in it."""
    if file is None:
        return {}, ()
    try:
        text = file.read_text(encoding="utf-8")
        table = tomllib.loads(text).get("explain", {})
    except (FileNotFoundError, NotADirectoryError):
        return {}, ()
    except OSError as why:
        raise UserError(f"{file} cannot be read: {why.strerror or why}; mend its permissions.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as why:
        where = re.search(r"\(at [^()]*\)", str(why))
        raise UserError(f"{file} is not TOML {where[0] if where else ''}; mend it.".replace(" ;", ";")) from None
    if not isinstance(table, dict):
        raise UserError(f"{file}: explain must be a table; write [explain].")
    settings = {}
    for given, value in table.items():
        name = given.replace("_", "-")
        if name not in SETTINGS:
            near = difflib.get_close_matches(name, SETTINGS, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(SETTINGS)}."
            raise UserError(f"{file}: [explain] has no setting {given!r}; {hint}")
        settings[name] = _value(file, given, name, value)
    return settings, _open_to_others(file) if "api-key" in settings else ()


def _value(file: Path, given: str, name: str, value: Any) -> Any:
    """`value` if it is of the right kind. It is not repeated in the complaint: it may be the key in the wrong place."""
    if name == "timeout":
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise UserError(f"{file}: {given} must be a positive number of seconds.")
    elif name == "max-tokens":
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise UserError(f"{file}: {given} must be a positive whole number.")
    elif not isinstance(value, str) or not value.strip():
        raise UserError(f'{file}: {given} must be a string; write {given} = "...".')
    else:
        return value.strip()
    return value


def _open_to_others(file: Path) -> tuple[str, ...]:
    if os.name != "posix" or not stat.S_IMODE(file.stat().st_mode) & (stat.S_IRGRP | stat.S_IROTH):
        return ()
    return (f"{file} holds a key and others on this machine may read it; run: chmod 600 {file}",)
