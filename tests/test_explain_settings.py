"""Which server is asked, and where a key goes and where it never goes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from numdebug import config
from numdebug.diagnosing import Request, diagnose
from numdebug.errors import UserError
from numdebug.explain.scrub import Scrubber
from numdebug.explain.settings import OPENAI, PLACEHOLDER, Flags, Settings, find, is_local

KEY, OTHER = "sk-one-0123456789", "sk-two-9876543210"


@pytest.fixture
def user(tmp_path: Path):
    """A user with a configuration file and an environment: find settings for it."""

    def with_settings(file: str = "", flags: Flags | None = None, mode: int = 0o600, **environ: str) -> Settings:
        if file:
            place = tmp_path / "numdebug" / "config.toml"
            place.parent.mkdir(exist_ok=True)
            place.write_text(file)
            place.chmod(mode)
        return find(flags, {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path / "nowhere"), **environ})

    return with_settings


FILE = f"""
[explain]
base-url = "https://file.example/v1"
model = "of-the-file"
api-key = "{KEY}"
timeout = 7
language = "hi"
max-tokens = 900
"""


def test_the_file_says_everything(user):
    found = user(FILE)
    assert found.server is not None
    assert (found.server.base_url, found.server.model, found.server.key) == ("https://file.example/v1", "of-the-file", KEY)
    assert (found.server.timeout, found.server.max_tokens, found.language) == (7.0, 900, "hi")
    assert (found.missing, found.notes) == ("", ())


def test_flags_win_over_the_environment_and_that_over_the_file(user):
    numdebug = {"NUMDEBUG_BASE_URL": "https://numdebug.example/v1", "NUMDEBUG_MODEL": "n", "NUMDEBUG_API_KEY": "key-of-numdebug"}
    openai = {"OPENAI_BASE_URL": "https://openai.example/v1", "OPENAI_MODEL": "o", "OPENAI_API_KEY": "key-of-openai"}
    flags = Flags("https://flags.example/v1", "f", "key-of-flags")
    seen = []
    for some in (flags, None):
        for environ in ({**numdebug, **openai}, openai, {}):
            server = user(FILE, some, **environ).server
            seen.append((server.base_url.split("/")[2].split(".")[0], server.model, server.key))
    assert seen == [("flags", "f", "key-of-flags")] * 3 + [
        ("numdebug", "n", "key-of-numdebug"),
        ("openai", "o", "key-of-openai"),
        ("file", "of-the-file", KEY),
    ]


def test_openai_is_asked_where_there_is_nothing_but_a_key(user):
    assert user(OPENAI_API_KEY=KEY, OPENAI_MODEL="m").server.base_url == OPENAI
    assert user(NUMDEBUG_API_KEY=KEY, NUMDEBUG_MODEL="m").server.base_url == OPENAI


# environment, file, what must be said
MISSING = [
    ({}, "", ["no server is set up", "--base-url", "--model"]),
    ({"OPENAI_MODEL": "m"}, "", ["no server is set up"]),
    ({"OPENAI_API_KEY": KEY}, "", ["no model is named for api.openai.com", "--model"]),
    ({"NUMDEBUG_BASE_URL": "http://localhost:1/v1"}, "", ["no model is named for localhost:1"]),
    ({"NUMDEBUG_BASE_URL": OPENAI, "NUMDEBUG_MODEL": "m"}, "", ["no key for api.openai.com", "NUMDEBUG_API_KEY"]),
    ({"NUMDEBUG_BASE_URL": "localhost:8080/v1"}, "", ["NUMDEBUG_BASE_URL must begin with http:// or https://"]),
    ({"NUMDEBUG_BASE_URL": "https://me:secretpw@x.example/v1"}, "", ["NUMDEBUG_BASE_URL holds a user name or password"]),
    ({"NUMDEBUG_BASE_URL": "https://x.example/v1?key=secretpw"}, "", ["NUMDEBUG_BASE_URL is not a base URL"]),
    ({"NUMDEBUG_BASE_URL": "http://localhost\\.evil.example/v1"}, "", ["is not a base URL"]),
    ({"NUMDEBUG_BASE_URL": "http://localhost:99999/v1"}, "", ["is not a base URL"]),
    ({"NUMDEBUG_BASE_URL": "http://x.example/v1", "NUMDEBUG_API_KEY": KEY, "NUMDEBUG_MODEL": "m"}, "", ["unencrypted", "https://"]),
    ({"NUMDEBUG_BASE_URL": "http://10.0.0.3/v1", "NUMDEBUG_API_KEY": KEY, "NUMDEBUG_MODEL": "m"}, "", ["unencrypted", "tunnel"]),
    ({"OPENAI_API_KEY": "two words", "OPENAI_MODEL": "m"}, "", ["OPENAI_API_KEY holds blanks"]),
    ({"OPENAI_API_KEY": "кey", "OPENAI_MODEL": "m"}, "", ["OPENAI_API_KEY holds blanks or characters that no key has"]),
]  # fmt: skip


@pytest.mark.parametrize(("environ", "file", "words"), MISSING)
def test_what_is_missing_is_one_sentence(user, environ, file, words):
    found = user(file, **environ)
    assert found.server is None
    for word in words:
        assert word in found.missing
    assert found.missing.endswith(".")
    assert "\n" not in found.missing
    for secret in (KEY, "secretpw", "two words"):
        assert secret not in repr(found)


# base URL by flag, environment, file, the key that is sent (None: nothing is sent, because the key is another server's)
KEYS = [
    ("https://x.example/v1", {"OPENAI_API_KEY": KEY}, "", None),  # for OpenAI only
    ("http://localhost:1/v1", {"OPENAI_API_KEY": KEY}, "", PLACEHOLDER),
    ("https://api.openai.com/v1/", {"OPENAI_API_KEY": KEY}, "", KEY),
    ("https://API.openai.com:443/v1", {"OPENAI_API_KEY": KEY}, "", KEY),
    ("https://api.openai.com.evil.example/v1", {"OPENAI_API_KEY": KEY}, "", None),
    ("https://x.example/v1", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://x.example/v1"}, "", KEY),
    ("https://x.example:8443/v1", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://x.example/v1"}, "", None),
    (OPENAI, {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://x.example/v1"}, "", None),
    ("https://x.example/v1", {"NUMDEBUG_API_KEY": KEY}, "", KEY),  # given to numdebug, for whatever the user names
    ("https://x.example/v1", {"NUMDEBUG_API_KEY": KEY, "NUMDEBUG_BASE_URL": "https://y.example/v1"}, "", None),
    ("https://x.example/v1", {"NUMDEBUG_API_KEY": KEY, "NUMDEBUG_BASE_URL": "https://x.example/other"}, "", KEY),
    ("http://localhost:1/v1", {"NUMDEBUG_API_KEY": KEY, "NUMDEBUG_BASE_URL": "https://y.example/v1"}, "", PLACEHOLDER),
    ("http://localhost:1/v1", {"NUMDEBUG_API_KEY": KEY}, "", KEY),
    ("https://x.example/v1", {}, FILE, None),  # the file's key belongs to the file's server
    ("https://file.example/v2", {}, FILE, KEY),
    ("http://localhost:1/v1", {}, FILE, PLACEHOLDER),
    (None, {"OPENAI_API_KEY": OTHER}, FILE, KEY),  # OpenAI's does not go to the file's server
    (None, {"NUMDEBUG_BASE_URL": "https://n.example/v1", "OPENAI_API_KEY": OTHER}, FILE, None),
    (None, {"OPENAI_BASE_URL": "https://o.example/v1"}, f'[explain]\napi-key = "{KEY}"', KEY),
    ("https://keyless.example/v1", {}, "", PLACEHOLDER),
    ("http://10.0.0.3:8000/v1", {}, "", PLACEHOLDER),  # a machine in one's own network that wants no key
]  # fmt: skip


@pytest.mark.parametrize(("base_url", "environ", "file", "key"), KEYS)
def test_a_key_never_goes_to_another_server(user, base_url, environ, file, key):
    found = user(file, Flags(base_url, "m"), **environ)
    if key is None:
        assert found.server is None
        assert "belongs to another server and is not sent there" in found.missing
    else:
        assert found.server.key == key


def test_local_is_this_machine_only():
    local = ["localhost", "LOCALHOST:8080", "llm.localhost", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "0.0.0.0:8000"]
    other = ["localhost.example", "127.0.0.1.example", "10.0.0.1", "box.local", "example", "[fe80::1]", "notlocalhost"]
    assert all(is_local(f"http://{host}/v1") for host in local)
    assert not any(is_local(f"http://{host}/v1") for host in other)


def test_the_base_url_is_brought_to_one_form(user):
    for given in ("HTTP://LocalHost:8080/v1/", " http://localhost:8080/v1 ", "http://localhost:8080/v1/chat/completions"):
        assert user(flags=Flags(given, "m")).server.base_url == "http://localhost:8080/v1"


def test_nothing_shows_the_key(user):
    found = user(FILE, Flags(key=OTHER, base_url="https://x.example"))
    assert OTHER not in repr(found)
    assert OTHER not in str(found.server)
    assert OTHER not in f"{Flags(key=OTHER)}"


@pytest.mark.skipif(os.name != "posix", reason="permissions of this kind exist on POSIX only")
def test_a_file_with_a_key_that_others_may_read_is_noted_once(user):
    for mode in (0o644, 0o640, 0o604):
        (note,) = user(FILE, mode=mode).notes
        assert "chmod 600" in note
        assert "config.toml" in note
    assert user(FILE, mode=0o600).notes == ()
    assert user('[explain]\nmodel = "m"', mode=0o644).notes == ()


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("[explain]\nbase-ulr = 'x'", ["no setting 'base-ulr'", "did you mean base-url?"]),
        ("[explain]\nfrobnicate = 1", ["no setting 'frobnicate'", "known are", "api-key"]),
        ("[explain]\ntimeout = -1", ["timeout must be a positive number of seconds"]),
        ("[explain]\ntimeout = true", ["timeout must be"]),
        ("[explain]\nmax-tokens = 1.5", ["max-tokens must be a positive whole number"]),
        ("[explain]\nmodel = ['a-secret']", ["model must be a string"]),
        ("[explain]\napi-key = 12345678", ["api-key must be a string"]),
        ("explain = 3", ["[explain]"]),
        ("[explain\napi-key = 'a-secret'", ["is not TOML", "line 1"]),
    ],
)
def test_mistakes_in_the_file_are_told(user, file, words):
    with pytest.raises(UserError) as told:
        user(file)
    for word in ["config.toml", *words]:
        assert word in str(told.value)
    assert "a-secret" not in str(told.value)
    assert "12345678" not in str(told.value)


def test_underscores_are_hyphens_and_a_relative_xdg_folder_counts_as_none(user, tmp_path, monkeypatch):
    assert user('[explain]\nbase_url = "http://localhost:1"\nmodel = "m"').server is not None
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home" / ".config" / "numdebug"
    home.mkdir(parents=True)
    (home / "config.toml").write_text('[explain]\nlanguage = "de"')
    assert find(None, {"XDG_CONFIG_HOME": "relative", "HOME": str(tmp_path / "home")}).language == "de"


PROJECTS = ['base-url = "https://evil.example"', 'api_key = "k-secret"', 'model = "m"', '[tool.numdebug.explain]\nlanguage = "hi"']


def test_a_user_without_a_home_has_no_file(monkeypatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert "no server is set up" in find(None, {}).missing
    assert Scrubber.here("", {}).scrub("loss at ~/x") == "loss at ~/x"


@pytest.mark.parametrize("line", PROJECTS)
def test_a_project_cannot_choose_the_server(tmp_path, line):
    (tmp_path / "pyproject.toml").write_text(f"[tool.numdebug]\n{line}\n")
    with pytest.raises(UserError) as told:
        config.load(tmp_path)
    assert "a project may not say which server" in str(told.value)
    assert "~/.config/numdebug/config.toml" in str(told.value)
    assert "k-secret" not in str(told.value)


# --- What the observed program sees ---------------------------------------------------------------------------------------------------

TELLTALE = """
import json, os, subprocess, sys
seen = {"environ": dict(os.environ), "argv": sys.argv, "orig": sys.orig_argv}
try:
    seen["proc"] = open("/proc/self/environ").read()
except OSError:
    seen["proc"] = ""
seen["child"] = subprocess.run([sys.executable, "-c", "import os; print(dict(os.environ))"], capture_output=True, text=True).stdout
json.dump(seen, open("seen.json", "w"))
"""


@pytest.fixture
def telltale(tmp_path, monkeypatch):
    """A program that writes down what it can see; gives all that as text."""
    (tmp_path / "telltale.py").write_text(TELLTALE)
    monkeypatch.chdir(tmp_path)

    def run(hide: tuple[str, ...]) -> str:
        diagnose(Request("telltale.py", call=False, rerun=False, hide=hide))
        return json.dumps(json.loads(Path("seen.json").read_text()))

    return run


def test_the_program_never_sees_the_key_of_numdebug(telltale, monkeypatch):
    monkeypatch.setenv("NUMDEBUG_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", OTHER)
    seen = telltale(())
    assert KEY not in seen
    assert "NUMDEBUG_API_KEY" not in seen
    assert seen.count(OTHER) == (3 if Path("/proc/self/environ").exists() else 2), "without --explain the program is untouched"


def test_the_program_does_not_see_the_key_that_explains(telltale, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("COPY_OF_IT", KEY)
    monkeypatch.setenv("A_HEADER", f"Bearer {KEY}")
    monkeypatch.setenv("SOMETHING_ELSE", OTHER)
    found = find(Flags(model="m"))
    assert found.hide == ("A_HEADER", "COPY_OF_IT", "NUMDEBUG_API_KEY", "OPENAI_API_KEY")
    seen = telltale(found.hide)
    assert KEY not in seen
    assert OTHER in seen


def test_a_local_server_leaves_the_environment_alone(user):
    assert user(flags=Flags("http://localhost:1/v1", "m"), OPENAI_API_KEY=KEY).hide == ("NUMDEBUG_API_KEY",)
    assert user(OPENAI_API_KEY=KEY).hide == ("NUMDEBUG_API_KEY",), "nothing is asked: no model"
