"""Which `ullage up` run as this user: each leaves a note of its data directory, so that commands find it without being told.

The notes are in the user's own state directory. One that a killed process left behind is told by the process in the directory's
lock file, which is gone: asking for the lock itself would keep out an `ullage up` that starts at that moment.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

LOCK: Final = "up.lock"  # in the data directory, with the process that holds it
KUBECONFIG: Final = "kubeconfig"


@contextmanager
def announced(directory: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Has `directory` found from here to the end of the block. Where no note can be left, nobody finds it."""
    place = _notes(environ)
    note = place / hashlib.sha256(str(directory).encode()).hexdigest()[:16] if place is not None else None
    if note is not None:
        with suppress(OSError):
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            note.write_text(str(directory))
    try:
        yield
    finally:
        if note is not None:
            with suppress(OSError):
                note.unlink(missing_ok=True)


def running(environ: Mapping[str, str]) -> list[Path]:
    """The kubeconfigs of those that run, in the order of their paths."""
    found = []
    place = _notes(environ)
    for note in place.iterdir() if place is not None and place.is_dir() else ():
        with suppress(OSError, UnicodeDecodeError):
            directory = Path(note.read_text())
            if _is_held(directory / LOCK) and (directory / KUBECONFIG).is_file():
                found.append(directory / KUBECONFIG)
    return sorted(found)


def _notes(environ: Mapping[str, str]) -> Path | None:
    configured = Path(environ.get("XDG_STATE_HOME", ""))
    home = environ.get("HOME")
    if configured.is_absolute():  # the specification says to ignore a relative one
        return configured / "ullage" / "up"
    return Path(home) / ".local" / "state" / "ullage" / "up" if home else None


def _is_held(lock: Path) -> bool:
    try:
        os.kill(int(json.loads(lock.read_text())["pid"]), 0)
    except PermissionError:  # somebody's who is not us: it runs
        return True
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return True
