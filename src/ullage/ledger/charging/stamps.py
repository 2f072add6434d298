"""What an object takes, written on the object itself: an annotation that only Ullage sets.

A snapshot does not say how large it will be; the mutating webhook estimates it and stamps the object, and from then on what it
takes is a function of the object alone. Nobody else may set or change a stamp: whatever a person writes is put back. What
another webhook changes behind ours is seen in the validating phase, and is not admitted.

Pure. Estimates come from the slice.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from ullage.errors import Terminal
from ullage.kube.errors import Cause
from ullage.kube.identities import is_own
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.review import Decision, Review
from ullage.ledger.amounts import BadAmount, Takings

T = TypeVar("T", bound=Object)

STAMP: Final = "ullage.io/takes"
FIELD: Final = f"metadata.annotations[{STAMP}]"

_decoder: Final = msgspec.json.Decoder(dict[str, dict[str, str]])


class BadStamp(Terminal):
    """An object without a stamp, or with one that cannot be read: nobody can say what it takes."""


def write_stamp(takes: Takings) -> str:
    """`{"snapshots/namespace":{"storage":"10Gi"}}`. Equal takings always give the same text."""
    return msgspec.json.encode(takes.written()).decode()


def read_stamp(meta: Meta) -> Takings:
    """What an object is stamped to take. Raises BadStamp, and BadAmount for an amount of less than nothing."""
    text = meta.annotations.get(STAMP)
    if text is None:
        raise BadStamp(f"{FIELD}: it is missing")
    try:
        return Takings.parse(_decoder.decode(text), field=FIELD)
    except BadAmount:
        raise
    except msgspec.DecodeError as error:
        raise BadStamp(f"{FIELD}: {error}") from error


def stamped(review: Review, kind: Kind[T], estimate: Takings) -> Decision:
    """The answer of a mutating hook: the request, with the stamp that the object ought to have. Such a hook is to be asked
    again when others change the object after it (`reinvoke`)."""
    new = review.object_json()
    meta = new.setdefault("metadata", {})
    meta["annotations"] = {**(meta.get("annotations") or {}), STAMP: _wanted(review, kind, estimate)}
    return review.change(review.object_json(), new)


def stamp_fault(review: Review, kind: Kind[T], estimate: Takings) -> Decision | None:
    """What a validating hook has to say of the stamp: None where it is what it ought to be.

    A create that differs is told to try again, since the estimate itself may have changed between the phases; it is not
    admitted either way. An update that differs can only be another webhook's doing.
    """
    wanted, found = _wanted(review, kind, estimate), review.object(kind).metadata.annotations.get(STAMP)
    if is_own(review):
        return _unreadable(review.object(kind).metadata)
    if found == wanted:
        return None
    said = f"it is {found or 'missing'}, and Ullage had stamped {wanted}: another webhook changes it"
    if review.operation == "CREATE":
        return Decision.again(f"{FIELD}: {said}, or what the object would take has just changed")
    return _invalid(f"{said}; only Ullage may")


def _wanted(review: Review, kind: Kind[T], estimate: Takings) -> str:
    """Our own stamp stands. Of others' objects the stamp stays what it was; a new object, and one from before there were
    stamps, gets what is estimated."""
    given = review.object(kind).metadata.annotations.get(STAMP)
    if given is not None and is_own(review):
        return given
    old = review.old(kind)
    before = old.metadata.annotations.get(STAMP) if old is not None else None
    return write_stamp(estimate) if before is None else before


def _unreadable(meta: Meta) -> Decision | None:
    try:
        read_stamp(meta)
    except (BadStamp, BadAmount) as error:
        return _invalid(str(error))
    return None


def _invalid(problem: str) -> Decision:
    return Decision.invalid(f"{FIELD}: {problem}", Cause(FIELD, "FieldValueInvalid", problem))
