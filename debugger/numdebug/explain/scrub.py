"""What must not leave the process: secrets, and who and where the user is. Numbers, code and names of operations stay as they are."""

from __future__ import annotations

import base64
import builtins
import getpass
import json
import keyword
import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from numdebug.explain.secret_kinds import ESCAPED, KINDS, PLACEHOLDER, secret

GUARDED = 8  # characters that a value needs to be looked for everywhere: shorter ones are parts of words
NAMED = 4  # characters of a user name that is looked for outside paths
# Parts of the names of environment variables that hold secrets.
SECRET_PARTS = set("KEY APIKEY TOKEN SECRET PASSWORD PASSWD PASSPHRASE PASS PWD CREDENTIAL CREDENTIALS AUTH DSN COOKIE".split())
SECRET_ENDS = ("TOKEN", "SECRET", "PASSWORD", "APIKEY")
NOT_SECRET = {"PWD", "OLDPWD", "SSH_AUTH_SOCK"}
# User names that are words of code and of prose: they are looked for in paths and before an @ only.
WORDS = set(
    "admin administrator alpha april august beta bill chase chip colab conda core dask data dataset dean debian debug default demo "
    "developer devel docker drew epoch faith float frank gamma gene grace gradient grant guest head home hope host jack jenkins jovyan "
    "joy jupyter kernel keras layer learn linear linux local loss mark mean mike mini mask master matrix mind model module mount "
    "network node norm notebook numpy nvidia ocean operator optimizer output owner parameter pool print prod production public python "
    "pytorch query rand random ranger rich root rose runner scale scratch script sense server service share shell sigma singularity "
    "softmax space spark state step storage student system tensor tensorflow test tester theta torch train trainer trial ubuntu user "
    "username users value vagrant vector virtual weight will work worker workspace".split()
) | {*keyword.kwlist, *dir(builtins)}

B = rf"(?:(?<![A-Za-z0-9_.-])|{ESCAPED})"
SEPARATOR = r"(?:/|\\\\|\\)"
NAME = r"[^\s/\\:*?\"'<>|,;()\[\]{}]+"
TLDS = (
    "com org net edu gov mil info biz io ai dev app cloud tech xyz me co uk de fr es nl be ch se no fi dk pl cz hu ro gr pt ie in cn jp "
    "kr tw hk sg my th vn id au nz br ar mx cl za ng ke il tr ru ua ir sa ae eu us ca"
).split()
ORDINARY_MAIL = {"git@github.com", "git@gitlab.com", "git@bitbucket.org"}

EMAIL = re.compile(
    rf"(?i){B}[A-Z0-9][A-Z0-9._%+-]{{0,63}}@(?:[A-Z0-9-]{{1,63}}\.){{1,5}}(?:{'|'.join(TLDS)})(?![A-Za-z0-9_(\[-])(?!\.[A-Za-z_])"
)
ADDRESS = re.compile(
    rf"(?:(?<![\w.=~^<>-])|{ESCAPED})(?:10(?:\.\d{{1,3}}){{3}}|192\.168(?:\.\d{{1,3}}){{2}}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{{1,3}}){{2}}"
    r"|169\.254(?:\.\d{1,3}){2})(?![\w.-]\d)"
)
OTHER_ADDRESS = re.compile(r"(?<=://)(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?=[:/\s\"']|$)")
LINK_LOCAL = re.compile(rf"(?i)(?:(?<![\w:])|{ESCAPED})fe80:(?::?[0-9a-f]{{1,4}}){{1,7}}(?:%\w+)?")
MAC = re.compile(rf"(?i)(?:(?<![\w:])|{ESCAPED})(?:[0-9a-f]{{2}}:){{5}}[0-9a-f]{{2}}(?![\w:])")
UNIX_HOME = re.compile(rf"(?P<b>(?:(?<![\w.>])|{ESCAPED})(?:/[\w.-]+)*?/(?:home|Users)/)(?P<s>{NAME})")
WINDOWS_HOME = re.compile(
    rf"(?i)(?P<b>(?:(?:\b|{ESCAPED})[A-Z]:|(?:(?<![\w.])|{ESCAPED})/(?:mnt/)?[a-z]){SEPARATOR}(?:Users|Documents and Settings){SEPARATOR})"
    rf"(?P<s>[^/\\:*?\"'<>|\r\n]{{1,60}}?)(?={SEPARATOR}|[\"'<>|:\r\n]|$)"
)
TILDE = re.compile(r"(?P<b>[\"']~)(?P<s>[A-Za-z_][\w.-]*)(?=/[\w.])")
SSH = re.compile(rf"(?P<b>(?<![\w.@)\]-])|{ESCAPED})(?P<s>[a-z_][a-z0-9_.-]{{0,31}}@[A-Za-z][A-Za-z0-9.-]{{0,62}})(?=:[~/])")
QUOTED = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"')
SHARED_HOMES = {"shared", "public", "Public", "Shared", "Default", "All Users"}


@dataclass(frozen=True)
class Person:
    """Who and where the user is."""

    home: str = ""
    user: str = ""
    hosts: tuple[str, ...] = ()
    name: str = ""  # in full


@dataclass
class Scrubber:
    """Replaces what is secret by its kind, as in `<github-token>`. Scrubbing twice changes nothing more."""

    secrets: tuple[str, ...] = field(default=(), repr=False)  # values to remove wherever they stand
    person: Person = field(default_factory=Person, repr=False)
    _met: dict[str, set[int]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._steps = [*_exact(self.secrets), *_kinds(), *_places(self.person)]

    @staticmethod
    def here(key: str = "", environ: Mapping[str, str] = os.environ) -> Scrubber:
        """For this machine and environment. `key` is the key that the server is asked with."""
        return Scrubber(tuple(dict.fromkeys([key, *_secret_values(environ)])), _person(environ))

    @property
    def counts(self) -> dict[str, int]:
        """Kind -> how many different values of it were removed so far."""
        return {kind: len(values) for kind, values in sorted(self._met.items())}

    def scrub(self, text: str) -> str:
        """`text` without secrets and without the names of user, machine and home folder. Texts quoted in it as in JSON are read."""
        text = QUOTED.sub(self._inner, text)
        for kind, pattern, replaced in self._steps:
            text = pattern.sub(lambda match, k=kind, r=replaced: self._note(k, match, r(match)), text)  # type: ignore[misc]
        return text

    def every(self, value: Any) -> Any:
        """`value`, as JSON has it, with every text in it scrubbed. Names of fields stay: they are the protocol's."""
        if isinstance(value, str):
            return self.scrub(value)
        if isinstance(value, dict):
            return {name: self.every(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.every(item) for item in value]
        return value

    def _inner(self, match: re.Match[str]) -> str:
        if "\\" not in match[0]:
            return match[0]
        try:
            inner = json.loads(match[0])
        except ValueError:  # not JSON after all
            return match[0]
        clean = self.scrub(inner)
        return match[0] if clean == inner else json.dumps(clean, ensure_ascii=False)

    def _note(self, kind: str, match: re.Match[str], new: str) -> str:
        if new != match[0]:
            self._met.setdefault(kind, set()).add(hash(secret(match)))
        return new


_Step = tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]]


def _exact(values: Iterable[str]) -> list[_Step]:
    """Known values, longest first, also as they look in a URL, in JSON or repr, and in base64."""
    forms = set()
    for value in values:
        if len(value) >= GUARDED and not PLACEHOLDER.fullmatch(value):
            encoded = base64.b64encode(value.encode("utf-8", "replace")).decode().rstrip("=")
            forms |= {value, quote(value, safe=""), quote(value), json.dumps(value)[1:-1], repr(value)[1:-1], encoded}
    if not forms:
        return []
    # A value of letters only must not take a part of a longer word with it.
    either = "|".join(
        rf"(?:(?<![A-Za-z0-9_])|{ESCAPED}){re.escape(f)}(?![A-Za-z0-9_])" if f.isalnum() and len(f) < 16 else re.escape(f)
        for f in sorted(forms, key=len, reverse=True)
    )
    return [("secret", re.compile(either), lambda match: "<secret>")]


def _kinds() -> list[_Step]:
    def replacing(name: str, really: Callable[[re.Match[str]], bool] | None) -> Callable[[re.Match[str]], str]:
        def replaced(match: re.Match[str]) -> str:
            if PLACEHOLDER.fullmatch(secret(match)) or (really is not None and not really(match)):
                return match[0]
            if "s" not in match.re.groupindex:
                return f"<{name}>"
            begin, end = match.span("s")
            return f"{match.string[match.start() : begin]}<{name}>{match.string[end : match.end()]}"

        return replaced

    return [(kind.name, kind.pattern, replacing(kind.name, kind.really)) for kind in KINDS]


def _places(person: Person) -> list[_Step]:
    """E-mail, addresses, home folders, the user's names and the machine's, in this order."""
    steps: list[_Step] = [
        ("email", EMAIL, lambda m: m[0] if m[0].lower() in ORDINARY_MAIL or _product(m) else "<email>"),
        ("address", ADDRESS, lambda m: "<address>" if _octets(m[0]) else m[0]),
        ("address", OTHER_ADDRESS, lambda m: "<address>"),
        ("address", LINK_LOCAL, lambda m: "<address>"),
        ("address", MAC, lambda m: "<address>"),
    ]
    home = person.home.rstrip("/\\")
    if len(home) > 1:
        forms = {home, home.replace("\\", "\\\\"), home.replace("\\", "/")}
        either = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        steps.append(("home", re.compile(rf"(?:(?<![\w.~-])|{ESCAPED})(?:{either})(?![\w.-])"), lambda m: "~"))
    steps += [
        ("user", UNIX_HOME, _named_home),
        ("user", WINDOWS_HOME, _named_home),
        ("user", TILDE, lambda m: f"{m['b']}<user>"),
        ("user", SSH, lambda m: m[0] if m["s"].startswith("git@") else f"{m['b']}<user>@<host>"),
    ]
    if " " in person.name.strip():
        steps.append(("user", re.compile(rf"\b{re.escape(person.name.strip())}\b"), lambda m: "<user>"))
    return [*steps, *_hosts(person.hosts), *_users(person.user)]


def _named_home(match: re.Match[str]) -> str:
    name = match["s"]
    kept = name in SHARED_HOMES or PLACEHOLDER.fullmatch(name) is not None or name.startswith(("{", "$", "%"))
    return match[0] if kept else f"{match['b']}<user>"


def _hosts(hosts: Iterable[str]) -> list[_Step]:
    steps: list[_Step] = []
    for host in sorted({h for h in hosts if h}, key=len, reverse=True):
        name = re.escape(host)
        if _distinct_host(host):
            steps.append(("host", re.compile(rf"(?i){B}{name}(?![A-Za-z0-9_-])"), lambda m: "<host>"))
        elif host.lower() not in ("localhost", "localhost.localdomain"):
            steps.append(("host", re.compile(rf"(?i)(?:(?<=@)|(?<=://)|(?<=host=)){name}(?=[:/\s\"']|$)"), lambda m: "<host>"))
    return steps


def _distinct_host(host: str) -> bool:
    """Whether no program would use this as a name: it has a hyphen or a dot, or is a longer mixture of letters and digits."""
    if host.lower().startswith("localhost"):
        return False
    mixed = any(c.isdigit() for c in host) and any(c.isalpha() for c in host)
    return (len(host) >= 5 and ("-" in host or "." in host)) or (len(host) >= 10 and mixed)


def _users(user: str) -> list[_Step]:
    if not user:
        return []
    name = re.escape(user)
    ordinary = user.lower() in WORDS
    some_host = r"(?:<host>|[A-Za-z][\w-]*[\w.-]*(?::|[/~\s\"']|$))" if ordinary else "[A-Za-z<]"
    before_host = re.compile(rf"{B}{name}(?=@{some_host})")
    tilde = re.compile(rf"(?<=~){name}(?=[/\\\s\"']|$)")
    in_roots = re.compile(rf"(?<=/)(?P<b>(?:home|users|scratch|work|data|nfs|mnt|nobackup|storage|projects)/){name}(?=[/\"'\s:,)]|$)")
    steps: list[_Step] = [("user", tilde, lambda m: "<user>")]
    if not ordinary:
        steps.append(("user", before_host, lambda m: "<user>"))
        steps.append(("user", re.compile(rf"(?<=[/\\]){name}(?=[/\\\"'\s:,)]|$)"), lambda m: "<user>"))
        if len(user) >= NAMED:  # not where it is a name in code: before a call, an attribute, an index or a value
            steps.append(("user", re.compile(rf"{B}{name}(?![A-Za-z0-9_-])(?!\s*[=(\[@])(?!\.[A-Za-z_])"), lambda m: "<user>"))
    else:
        steps.append(("user", before_host, lambda m: "<user>"))
        steps.append(("user", in_roots, lambda m: f"{m['b']}<user>"))
    return steps


def _product(match: re.Match[str]) -> bool:
    """Whether `a@b.co` is a matrix product: short names on both sides."""
    left, _, right = match[0].partition("@")
    return len(left) <= 2 and len(right.split(".")[0]) <= 2


def _octets(text: str) -> bool:
    return all(int(part) <= 255 for part in text.split("."))


def _secret_values(environ: Mapping[str, str]) -> list[str]:
    return [value.strip() for name, value in environ.items() if _is_secret(name.upper()) and _worth_hiding(value.strip())]


def _is_secret(name: str) -> bool:
    parts = re.split(r"[^A-Z0-9]+", name)
    return name not in NOT_SECRET and (not SECRET_PARTS.isdisjoint(parts) or any(part.endswith(SECRET_ENDS) for part in parts))


def _worth_hiding(value: str) -> bool:
    """Not a path, a number or a switch; words are left to the patterns, which see whether they stand where a password would."""
    if len(value) < GUARDED or value.startswith(("/", "~", "./")) or re.fullmatch(r"[A-Za-z]:\\.*|[0-9.]+", value):
        return False
    return not (value.isalpha() and (value.islower() or value.isupper() or value.istitle()) and len(value) < 16)


def _person(environ: Mapping[str, str]) -> Person:
    home = environ.get("HOME") or environ.get("USERPROFILE") or _home()
    user = environ.get("USER") or environ.get("LOGNAME") or environ.get("USERNAME") or _account()
    hosts = [socket.gethostname(), environ.get("HOSTNAME", ""), environ.get("COMPUTERNAME", "")]
    return Person(home, user, tuple(dict.fromkeys([*hosts, *(h.split(".")[0] for h in hosts)])), _full_name())


def _home() -> str:
    try:
        return str(Path.home())
    except RuntimeError:  # a user id without a home, as in some containers
        return ""


def _account() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user id without an entry, as in some containers
        return ""


def _full_name() -> str:
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_gecos.split(",")[0]
    except (ImportError, KeyError):  # Windows, or a user id without an entry
        return ""
