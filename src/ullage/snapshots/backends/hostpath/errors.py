"""What the operating system says of files, in the words and the classes of `backends.base`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ullage.errors import Impossible, NotNow, Retryable, Terminal, Uncertain
from ullage.ledger.amounts import spell
from ullage.quantity import Quantity

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def printable(path: str | Path) -> str:
    """A path for a sentence. File names may hold any byte: what is not printable is written as an escape."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def bytes_text(count: int) -> str:
    """`1.5Gi`; the sign that nothing is free has a unit too."""
    return spell("storage", Quantity.of(count)) if count else "0 bytes"


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Errors inside name this path, not just the last part of it that the system call was given."""
    try:
        yield
    except OSError as error:
        error.filename = path
        error.filename2 = None
        raise


def copy_error(error: OSError, *, what: str, place: Path, needed: int | None) -> Retryable | Terminal:
    """Why a copy could not be made. Nothing is left of it by now."""
    if error.errno in FULL:
        asks = "" if needed is None else f", {bytes_text(needed)} needed"
        limit = "the quota is used up" if error.errno == errno.EDQUOT else "no space left"
        return NotNow(f"{what}: {limit} in {printable(place)}: {_free(place)} free{asks}")
    if error.errno in FORBIDDEN:
        return Impossible(
            f"{what}: {_where(error)}{error.strerror}; reading it and writing to {printable(place)} must be allowed"
        )
    return NotNow(f"{what}: {_where(error)}{error.strerror}")


def read_error(error: OSError, *, what: str) -> Retryable | Terminal:
    """Why something could not be looked at."""
    return (Impossible if error.errno in FORBIDDEN else NotNow)(f"{what}: {_where(error)}{error.strerror}")


def remove_error(error: OSError, *, what: str) -> Retryable | Terminal:
    """Why something is not gone, or not wholly."""
    if error.errno in FORBIDDEN:
        return Impossible(f"{what}: {_where(error)}{error.strerror}")
    return Uncertain(f"{what}: {_where(error)}{error.strerror}")


def _where(error: OSError) -> str:
    return f"{printable(os.fsdecode(error.filename))}: " if error.filename else ""


def _free(place: Path) -> str:
    try:
        state = os.statvfs(place)
    except OSError:
        return "an unknown amount"
    return bytes_text(state.f_bavail * state.f_frsize)
