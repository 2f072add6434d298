"""The annotations of ours on what runs. Nobody else sets them, and unlike those of a snapshot they change with the object: so
each request is given those that the object ought to have by then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from ullage.errors import BadInput
from ullage.kube.errors import Cause
from ullage.kube.identities import is_own
from ullage.kube.kinds import Kind
from ullage.kube.objects import Json
from ullage.kube.review import Decision, Review
from ullage.ledger.amounts import BadAmount
from ullage.ledger.charging.stamps import COST, STAMP, BadStamp, Marks, read_stamp
from ullage.vms.prices import Prices
from ullage.vms.pricing import Pricing

GUARDED: Final = (STAMP, COST)


def are_ours(review: Review, kind: Kind[Any]) -> bool:
    """Whether we change them ourselves, on what is there: then they stand. What we create is given those that it ought to have,
    as it may be made of a copy that has others."""
    old, new = review.old(kind), review.object(kind)
    if old is None or not is_own(review) or STAMP not in new.metadata.annotations:
        return False
    return any(new.metadata.annotations.get(key) != old.metadata.annotations.get(key) for key in GUARDED)


def kept(review: Review, kind: Kind[Any]) -> Marks:
    """As they are stored. What is not there yet stays away: what it takes is not known, and whoever follows finds it out."""
    old = review.old(kind)
    before = old.metadata.annotations if old is not None else {}
    return {key: before.get(key) for key in GUARDED}


def mark_fault(review: Review, kind: Kind[Any], marks: Marks) -> Decision | None:
    """What a validating hook has to say: None where each is what it ought to be. It may have changed since it was written, with
    the machine or its instance, so the request is to be tried again; it is not admitted either way."""
    found = review.object(kind).metadata.annotations
    for key, wanted in marks.items():
        if found.get(key) != wanted:
            said = f"it is {found.get(key) or 'missing'}, and Ullage had stamped {wanted or 'none'}"
            return Decision.again(
                f"metadata.annotations[{key}]: {said}: another webhook changes it, or the VM has just changed"
            )
    return None


async def price_fault(
    review: Review, kind: Kind[Any], priced: Callable[[Pricing], Awaitable[Marks | None]], prices: Prices
) -> Decision | None:
    """The same for marks that follow from a cost. The request may have been stamped by another replica, under another setting
    or before it saw a quota: what that works out is as good."""
    wanted = await priced(prices.of(review.namespace))
    if wanted is None:
        return unreadable(review, kind)
    fault = mark_fault(review, kind, wanted)
    for other in prices.elsewhere(review.namespace) if fault is not None else ():
        if mark_fault(review, kind, await priced(other) or {}) is None:
            return None
    return fault


def unreadable(review: Review, kind: Kind[Any]) -> Decision | None:
    """What is to be said of a stamp that we wrote ourselves."""
    meta = review.object(kind).metadata
    if STAMP not in meta.annotations:
        return None
    try:
        read_stamp(meta)
    except (BadStamp, BadAmount) as error:
        return Decision.invalid(str(error), Cause(f"metadata.annotations[{STAMP}]", "FieldValueInvalid", str(error)))
    return None


def wrong_field(error: BadInput) -> Decision:
    """422: what the object would cost cannot be told."""
    return Decision.invalid(str(error), Cause(error.where, "FieldValueInvalid", f"{error.given}: {error.problem}"))


# --- CEL: what is asked about at all ---------------------------------------------------------------------------------


def field(path: str, *, of: str, default: str) -> str:
    """A field of an object that may lack it, or any part of the way there."""
    parts = path.split(".")
    there = " && ".join(f"has({of}.{'.'.join(parts[: count + 1])})" for count in range(len(parts)))
    return f"({there} ? {of}.{path} : {default})"


def differs(path: str, default: str) -> str:
    return f"{field(path, of='object', default=default)} != {field(path, of='oldObject', default=default)}"


def one_of(values: Iterable[str]) -> str:
    return f"[{', '.join(repr(one) for one in sorted(values))}]"


def _mark(of: str) -> str:
    return f"(has({of}.metadata.annotations) && mark in {of}.metadata.annotations ? {of}.metadata.annotations[mark] : '')"


NEW: Final = "request.operation == 'CREATE'"
MARKS_DIFFER: Final = f"{one_of(GUARDED)}.exists(mark, {_mark('object')} != {_mark('oldObject')})"


def part(body: Json, *path: str) -> Any:
    """What is at a path of a body of which nobody has checked the shape."""
    found: Any = body
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found
