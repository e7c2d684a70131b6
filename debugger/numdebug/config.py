"""`[tool.numdebug]` in the pyproject.toml that lies nearest above the user's file."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from numdebug.errors import UserError


@dataclass(frozen=True)
class Config:
    """Defaults for `numdebug diagnose`; the command line wins. Names are those of the options, without the dashes."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()
    max_steps: int | None = None
    timeout: float | None = None
    rerun: bool = True
    call: bool = True


PERSONAL = ("explain", "base_url", "model", "api_key", "language")  # where a report is sent is the user's choice, never a project's
LISTS = ("select", "ignore", "probe")
FLAGS = ("rerun", "call")


def load(folder: Path) -> Config:
    """The configuration for programs in `folder`; defaults where there is none."""
    for parent in (folder, *folder.parents):
        file = parent / "pyproject.toml"
        if file.is_file():
            return _read(file)
    return Config()


def _read(file: Path) -> Config:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("numdebug", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as why:
        raise UserError(f"{file} cannot be read as configuration: {why}; mend it.") from None
    if not isinstance(table, dict):
        raise UserError(f"{file}: tool.numdebug must be a table; write [tool.numdebug].")
    known = {f.name for f in fields(Config)}
    settings = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in PERSONAL:
            raise UserError(
                f"{file}: a project may not say which server explains its reports, so [tool.numdebug] has no setting {key!r}; "
                "put it under [explain] in ~/.config/numdebug/config.toml, or use --base-url and --model."
            )
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = (
                f"did you mean {near[0].replace('_', '-')}?"
                if near
                else f"known are {', '.join(sorted(k.replace('_', '-') for k in known))}."
            )
            raise UserError(f"{file}: [tool.numdebug] has no setting {key!r}; {hint}")
        settings[name] = _checked(file, key, name, value)
    return Config(**settings)


def _checked(file: Path, key: str, name: str, value: Any) -> Any:
    if name in LISTS:
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return tuple(value)
        raise UserError(f"{file}: {key} must be a list of strings, not {value!r}.")
    if name in FLAGS:
        if isinstance(value, bool):
            return value
        raise UserError(f"{file}: {key} must be true or false, not {value!r}.")
    if isinstance(value, bool) or not isinstance(value, int if name == "max_steps" else int | float) or value <= 0:
        raise UserError(f"{file}: {key} must be a positive number, not {value!r}.")
    return value
