"""The journal: what the child process found out, one JSON line per fact, readable however the child ended.

Records are named: started, stage, ended, raised, guessed, invented, observed, environment, evidence, diagnosis, matched,
probe, note, verdict, failure, end. `report/assemble.py` says what each of them does to the report.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

from numdebug.plain import to_plain


class Journal:
    """Append-only writer. Each line reaches the kernel before `add` returns, so a crash loses nothing that was said."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._owner = os.getpid()

    def add(self, record: str, value: object = None, /, **data: Any) -> None:
        """Append one record: a dataclass (`add("evidence", evidence)`), named fields (`add("note", text="...")`), or both.

        Forked workers inherit this object; what they say is dropped, as it would interleave with ours.
        """
        if os.getpid() != self._owner:
            return
        fields = {**(to_plain(value) if is_dataclass(value) or isinstance(value, dict) else {}), **to_plain(data)}
        if isinstance(value, str):
            fields = {"text": value, **fields}
        line = json.dumps({"record": record, "data": fields}, allow_nan=False) + "\n"
        payload = line.encode("utf-8", "backslashreplace")
        while payload:
            payload = payload[os.write(self._fd, payload) :]


@dataclass(frozen=True)
class Record:
    """One line of the journal."""

    name: str
    data: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.data.get(key)


def read(path: Path) -> list[Record]:
    """All whole records; a line cut off by a crash is left out."""
    records = []
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    for line in text.split(b"\n"):
        try:
            parsed = json.loads(line)
            records.append(Record(parsed["record"], parsed["data"]))
        except (ValueError, KeyError, TypeError):
            continue
    return records


def body(record: Record, name: str) -> dict[str, Any]:
    """The fields of `record`, also where they were handed over under the record's own name (`add("evidence", evidence=e)`)."""
    inner = record.data.get(name)
    return inner if isinstance(inner, dict) and len(record.data) == 1 else record.data
