"""What can go wrong with a volume, and the class that says what to do about it.

    Terminal
    ├── Refused          not in this state, or not with these limits; worded as longhorn-engine words it
    │   └── NotFound     there is no such volume or snapshot
    └── Damaged          files are missing or unreadable: nothing is touched, a person has to look
    Retryable
    └── Unavailable      the disk is full, or the operating system says no

Callers of the real engine match on texts, for its codes say nothing: so the texts of `Refused` are part of the interface.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ullage.errors import Retryable, Terminal

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Refused(Terminal):
    """What was asked for is understood, and not possible now."""


class NotFound(Refused):
    """There is no such volume or snapshot."""


class Damaged(Terminal):
    """What is on the disk is not what was written."""


class Unavailable(Retryable):
    """The operating system refused; nothing that was acknowledged is lost."""


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Errors of the operating system inside become Unavailable, and name what was worked on."""
    try:
        yield
    except OSError as error:
        raise unavailable(error, what) from error


def unavailable(error: OSError, what: str) -> Unavailable:
    reason = "no space left on the device" if error.errno in _FULL else error.strerror or str(error)
    file = f" ({error.filename})" if error.filename else ""
    return Unavailable(f"{what}: {reason}{file}")
