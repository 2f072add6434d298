"""From an admission request to a charge: what the object would take, and what it takes now.

Only in the validating phase: before it, an object has neither its final name nor a uid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from ullage.errors import Terminal
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Review, Unreadable
from ullage.ledger.amounts import NOTHING, BadAmount
from ullage.ledger.book import Charge, key_of
from ullage.ledger.service.views import Taken, Takes

T = TypeVar("T", bound=Object)


class NoIdentity(Terminal):
    """A request whose object has no uid or version yet: it cannot be told from others, so it cannot be booked."""


@dataclass(frozen=True, slots=True)
class Addressed:
    """A charge, and the ledger that it is for."""

    ledger: str
    charge: Charge


def charge_of(
    review: Review, kind: Kind[T], takes: Takes[T], *, cluster: str = "", past_limit: bool = False
) -> Addressed | None:
    """What a request asks of a ledger; None where there is nothing to ask: a deletion, or an object that takes nothing.

    Raises `Unreadable`, which names the field, where the object would take less than nothing.
    """
    if review.operation not in ("CREATE", "UPDATE"):
        return None
    new = review.object(kind)
    try:
        wanted = takes(new)
    except BadAmount as error:
        raise Unreadable(error.where, f"{error.given}: {error.problem}") from error
    if wanted is None:
        return None
    old = review.old(kind) if review.operation == "UPDATE" else None
    had = _had(old, takes)
    meta = new.metadata if old is None else old.metadata
    if not meta.uid or (old is not None and not meta.resource_version):
        raise NoIdentity(f"{kind.name} {meta.name!r}: the request carries no uid")
    charge = Charge(
        key=key_of(kind.name, cluster=cluster, namespace=review.namespace, name=meta.name or review.name),
        uid=meta.uid,
        on_version=None if old is None else int(meta.resource_version),
        now=wanted.takes,
        # Moved here from another ledger, the whole object is new to this one.
        old=had.takes if had is not None and had.ledger == wanted.ledger else NOTHING,
        dry_run=review.dry_run,
        past_limit=past_limit,
    )
    return Addressed(wanted.ledger, charge)


def _had(old: T | None, takes: Takes[T]) -> Taken | None:
    """What the old object takes. One that takes no amount that can be is in no sum, so what mends it pays for all of it."""
    try:
        return takes(old) if old is not None else None
    except BadAmount:
        return None
