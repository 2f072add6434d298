"""What an object takes, written on the object itself: an annotation that only Ullage sets.

A snapshot does not say how large it will be; the mutating webhook estimates it and stamps the object, and from then on what it
takes is a function of the object alone. Nobody else may set or change a stamp: whatever a person writes is put back. What
another webhook changes behind ours is seen in the validating phase, and is not admitted. Other annotations that decide who pays
are guarded in the same way.

Pure. Estimates come from the slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from ullage.errors import Terminal
from ullage.kube.errors import Cause
from ullage.kube.identities import is_own
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.review import Decision, Review
from ullage.ledger.amounts import BadAmount, Cell, Takings, parse_limits, write_limits
from ullage.quantity import Format, Quantity

T = TypeVar("T", bound=Object)

STAMP: Final = "ullage.io/takes"
FIELD: Final = f"metadata.annotations[{STAMP}]"
# On what lies in another namespace than the one that pays, or in none: the namespace that does.
CHARGED_NAMESPACE: Final = "ullage.io/charged-namespace"
# On an object that pays for others: what each of them takes, in bytes.
PLAN: Final = "ullage.io/plan"
# On what runs: what it costs, whoever pays for it: `{"cpu":"1","memory":"1222Mi"}`.
COST: Final = "ullage.io/cost"
# How what it takes was found.
ESTIMATED_BY: Final = "ullage.io/estimated-by"
# On a snapshot that is estimated by the last one of its volume: how many bytes it may turn out to take.
AT_MOST: Final = "ullage.io/takes-at-most"

# Guarded annotations: what each is to be on an object that has none yet. None: nothing.
Marks = Mapping[str, str | None]

_decoder: Final = msgspec.json.Decoder(dict[str, dict[str, str]])


class BadStamp(Terminal):
    """An object without a stamp, or with one that cannot be read: nobody can say what it takes."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What an object is stamped to take, and the accounts that it takes it from: those that it takes nothing from as yet, too,
    since it may grow. One without accounts is for an object that never pays, as somebody else does."""

    cells: Mapping[Cell, Quantity]

    @property
    def takes(self) -> Takings:
        return Takings(self.cells)

    def resized(self, resource: str, amount: int) -> Stamp:
        """The same accounts, with this much of the resource from each."""
        new = Quantity.of(amount, Format.BINARY_SI)
        return Stamp({cell: new if cell.resource == resource else had for cell, had in self.cells.items()})

    def __str__(self) -> str:
        """`{"snapshots/namespace":{"storage":"10Gi"}}`. Equal stamps always give the same text."""
        return msgspec.json.encode(write_limits(self.cells)).decode()


FREE: Final = Stamp({})


def stamp_of(meta: Meta) -> Stamp:
    """What an object is stamped with. Raises BadStamp, and BadAmount for an amount of less than nothing."""
    text = meta.annotations.get(STAMP)
    if text is None:
        raise BadStamp(f"{FIELD}: it is missing")
    try:
        return Stamp(parse_limits(_decoder.decode(text), field=FIELD))
    except BadAmount:
        raise
    except msgspec.DecodeError as error:
        raise BadStamp(f"{FIELD}: {error}") from error


def read_stamp(meta: Meta) -> Takings:
    """What an object is stamped to take. Raises as `stamp_of` does."""
    return stamp_of(meta).takes


def write_stamp(takes: Takings | Stamp) -> str:
    return str(takes if isinstance(takes, Stamp) else Stamp(takes.cells))


def stamped(review: Review, kind: Kind[T], estimate: Takings | Stamp) -> Decision:
    """The answer of a mutating hook: the request, with the stamp that the object ought to have. Such a hook is to be asked
    again when others change the object after it (`reinvoke`)."""
    return guarded(review, kind, {STAMP: write_stamp(estimate)})


def stamp_fault(review: Review, kind: Kind[T], estimate: Takings | Stamp) -> Decision | None:
    """What a validating hook has to say of the stamp: None where it is what it ought to be."""
    return guard_fault(review, kind, {STAMP: write_stamp(estimate)})


def guarded(review: Review, kind: Kind[T], marks: Marks) -> Decision:
    """The same for any annotations that nobody but Ullage writes: the request, with each as it ought to be."""
    return marked(review, {key: _wanted(review, kind, key, fresh) for key, fresh in marks.items()})


def marked(review: Review, marks: Marks) -> Decision:
    """The request, with these annotations as they are to be (None: without it), and all others as they were sent."""
    new = review.object_json()
    meta = new.setdefault("metadata", {})
    before = meta.get("annotations") or {}
    after = {**{key: value for key, value in before.items() if key not in marks}, **_present(marks)}
    if after == before:
        return Decision.allow()
    meta["annotations"] = after
    return review.change(review.object_json(), new)


def guard_fault(review: Review, kind: Kind[T], marks: Marks) -> Decision | None:
    """What a validating hook has to say of them: None where each is what it ought to be.

    A create that differs is told to try again, since the estimate itself may have changed between the phases; it is not
    admitted either way. An update that differs can only be another webhook's doing.
    """
    meta = review.object(kind).metadata
    if is_own(review):
        return _unreadable(meta) if STAMP in meta.annotations else None
    for key, fresh in marks.items():
        wanted, found = _wanted(review, kind, key, fresh), meta.annotations.get(key)
        if found == wanted:
            continue
        field = f"metadata.annotations[{key}]"
        said = f"it is {found or 'missing'}, and Ullage had stamped {wanted or 'none'}: another webhook changes it"
        if review.operation == "CREATE":
            return Decision.again(f"{field}: {said}, or what the object would take has just changed")
        return _invalid(f"{said}; only Ullage may", field)
    return None


def _wanted(review: Review, kind: Kind[T], key: str, fresh: str | None) -> str | None:
    """What we write ourselves stands. On others' objects it stays what it was; a new object, and one from before there was any,
    gets what is fresh."""
    given = review.object(kind).metadata.annotations.get(key)
    if given is not None and is_own(review):
        return given
    old = review.old(kind)
    before = old.metadata.annotations.get(key) if old is not None else None
    return fresh if before is None else before


def _present(marks: Marks) -> dict[str, str]:
    return {key: value for key, value in marks.items() if value is not None}


def _unreadable(meta: Meta) -> Decision | None:
    try:
        read_stamp(meta)
    except (BadStamp, BadAmount) as error:
        return _invalid(str(error).removeprefix(f"{FIELD}: "))
    return None


def _invalid(problem: str, field: str = FIELD) -> Decision:
    return Decision.invalid(f"{field}: {problem}", Cause(field, "FieldValueInvalid", problem))
