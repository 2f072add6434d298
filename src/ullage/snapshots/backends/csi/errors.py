"""What a driver's refusal means: has something happened, and is it worth asking again?

The interface leaves it to the gRPC code. Five codes say that the call may still have had its effect, or may have it yet. So
may ALREADY_EXISTS: something has the name with other properties, and names are ours, so an earlier call may have made it with
the parameters of then. After any other nothing was made. Some of those need an edit, the rest may pass by themselves.

    Uncertain     CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE, RESOURCE_EXHAUSTED, ABORTED, ALREADY_EXISTS
    Refused       INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE, UNIMPLEMENTED
    NotNow        everything else: FAILED_PRECONDITION, INTERNAL, UNKNOWN, and refusals that a mended Secret can lift
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from ullage.errors import Impossible, NotNow, UllageError, Uncertain
from ullage.snapshots.backends.base import Secrets

T = TypeVar("T")
_UNCERTAIN = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "ALREADY_EXISTS"})
_REFUSED = frozenset({"INVALID_ARGUMENT", "NOT_FOUND", "OUT_OF_RANGE", "UNIMPLEMENTED"})
_HIDDEN = "(hidden)"
_MOST = 1000  # characters of a driver's own words: some send whole stack traces


class Refused(Impossible):
    """This request can have no effect, and has had none: the driver said so (with `code`), or we know that it would."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Incapable(Impossible):
    """The driver says by itself that it cannot do this kind of thing at all."""


def translated(code: str, words: str, *, what: str, secrets: Secrets) -> UllageError:
    """The error for a call that the driver did not answer with success. `what` names driver and call."""
    said = hidden(words, secrets).strip()
    if len(said) > _MOST:
        said = f"{said[:_MOST]}…"
    message = f"{what}: {code}: {said}" if said else f"{what}: {code}"
    if code in _UNCERTAIN:
        return Uncertain(message)
    return Refused(message, code=code) if code in _REFUSED else NotNow(message)


def hidden(text: str, secrets: Secrets) -> str:
    """The text without any secret that a driver quotes. Longer ones go first, since one may contain another."""
    for value in sorted(filter(None, secrets.values.values()), key=len, reverse=True):
        text = text.replace(value, _HIDDEN)
    return text


async def made_again(created: Awaitable[T], name: str) -> T | None:
    """What the driver has under a name, by asking it to make that once more: the only way to find what an earlier call may have
    made. None: nothing has the name, and nothing ever will."""
    try:
        return await created
    except (Refused, Incapable):
        return None
    except NotNow as problem:  # true of this call; of one before it, it says nothing
        raise Uncertain(f"whether {name} was made is not known: {problem}") from problem
