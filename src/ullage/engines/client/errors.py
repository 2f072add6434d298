"""What an engine's refusal means: has something happened, and is it worth asking again?

    Uncertain     it may have happened: look before anything else is concluded
    NotNow        nothing happened; it may work later, or once something else is done
    Impossible    nothing happened, and nothing will as long as the request and the volume are what they are

Real engines answer nearly everything with the gRPC code UNKNOWN, so it is their words that tell. Words that are not in the
table say nothing about what happened: Uncertain.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from ullage.errors import Impossible, NotNow, UllageError, Uncertain

_MOST: Final = 1000  # characters of an engine's own words


class Reason(StrEnum):
    """Why, for whoever has to do something about it."""

    EXISTS = "AlreadyExists"
    BAD_REQUEST = "BadRequest"
    NO_SNAPSHOT = "NoSuchSnapshot"
    REMOVED = "SnapshotRemoved"
    HEAD = "IsVolumeHead"
    SIZE = "BadVolumeSize"
    COUNT_LIMIT = "SnapshotCountLimit"
    SIZE_LIMIT = "SnapshotSizeLimit"
    BELOW_USAGE = "LimitBelowUsage"
    FRONTEND = "BadFrontend"
    FRONTEND_UP = "FrontendUp"
    FRONTEND_DOWN = "FrontendDown"
    PURGING = "Purging"
    REBUILDING = "Rebuilding"
    CLONING = "Cloning"
    NOT_EMPTY = "VolumeNotEmpty"
    EXPANDING = "Expanding"
    NO_REPLICA = "NoUsableReplica"
    ELSEWHERE = "OtherEngine"  # the address belongs to another volume by now
    DETACHED = "Detached"
    NO_VOLUME = "NoSuchVolume"
    FULL = "DiskFull"
    DAMAGED = "Damaged"
    UNSUPPORTED = "Unsupported"
    UNKNOWN = "Unknown"


_PASSING: Final = frozenset(
    {
        Reason.COUNT_LIMIT,
        Reason.SIZE_LIMIT,
        Reason.BELOW_USAGE,
        Reason.FRONTEND_UP,
        Reason.FRONTEND_DOWN,
        Reason.PURGING,
        Reason.REBUILDING,
        Reason.CLONING,
        Reason.EXPANDING,
        Reason.NO_REPLICA,
        Reason.ELSEWHERE,
        Reason.DETACHED,
        Reason.FULL,
    }
)

# The volume has all the snapshots that it may have. Nobody is to wait for that to change: whoever asked is told at once.
LIMITS: Final = frozenset({Reason.COUNT_LIMIT, Reason.SIZE_LIMIT})

_WORDS: Final = tuple(
    (re.compile(words), reason)
    for words, reason in (
        (r"(snapshot|volume) \S+ is already existing", Reason.EXISTS),
        (r"is equal or larger than snapshotMaxCount|too many active disks|snapshot count total is already", Reason.COUNT_LIMIT),
        (r"is not enough for head file", Reason.SIZE_LIMIT),
        (r"smaller than current snapshot (count|size) usage", Reason.BELOW_USAGE),
        (r"cannot revert to removed snapshot|already marked as removed", Reason.REMOVED),
        (r"target snapshot \S+ is not found|cannot find snapshot", Reason.NO_SNAPSHOT),
        (r"active differencing disk", Reason.HEAD),
        (r"volume frontend enabled", Reason.FRONTEND_UP),
        (r"failed to find frontend|cannot start empty frontend|frontend \S+ is already started", Reason.FRONTEND),
        (r"already purging", Reason.PURGING),
        (r"is rebuilding|rebuilding process|rebuilding in process", Reason.REBUILDING),
        (r"replica is cloning", Reason.CLONING),
        (r"expansion is in progress|during the engine expansion", Reason.EXPANDING),
        (r"expanded to a smaller size|not multiple of volume sector size", Reason.SIZE),
        (r"incorrect (volume|instance) name", Reason.ELSEWHERE),
        (r"no space left on (the )?device", Reason.FULL),
        (r"cannot clone into volume \S+ it holds data", Reason.NOT_EMPTY),  # here and below: hosts of embedded engines
        (r"cannot clone into volume \S+ its size is", Reason.SIZE),
        (r"is not attached", Reason.DETACHED),
        (r"frontend of volume \S+ is down", Reason.FRONTEND_DOWN),
    )
)

_NO_ANSWER: Final = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE"})
_CODES: Final = {
    "UNIMPLEMENTED": Reason.UNSUPPORTED,
    "NOT_FOUND": Reason.NO_VOLUME,
    "DATA_LOSS": Reason.DAMAGED,
    "INVALID_ARGUMENT": Reason.BAD_REQUEST,
    "OUT_OF_RANGE": Reason.BAD_REQUEST,
}


def error(reason: Reason, message: str) -> NotNow | Impossible:
    """Nothing happened, for this reason."""
    return NotNow(message, reason=reason) if reason in _PASSING else Impossible(message, reason=reason)


def translated(code: str, words: str, *, what: str) -> UllageError:
    """The error for a call that was not answered with success. `what` names engine and call."""
    said = words.strip()
    message = f"{what}: {said[:_MOST]}{'…' if len(said) > _MOST else ''}" if said else f"{what}: {code}"
    reason = reason_of(code, said)
    return Uncertain(message) if reason is Reason.UNKNOWN else error(reason, message)


def reason_of(code: str, words: str) -> Reason:
    """What is known of the reason. No answer at all is never one, whatever the words."""
    if code in _NO_ANSWER:
        return Reason.UNKNOWN
    by_words = next((reason for pattern, reason in _WORDS if pattern.search(words)), None)
    return by_words or _CODES.get(code, Reason.UNKNOWN)
