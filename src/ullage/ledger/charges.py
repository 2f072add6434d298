"""From an admission request to a charge: what the object would take, and what it takes now.

Only in the validating phase: before it, an object has neither its final name nor a uid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from ullage.errors import Terminal
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Review, Unreadable
from ullage.ledger.amounts import NOTHING, BadAmount, Takings
from ullage.ledger.book import Charge
from ullage.ledger.keys import key_of
from ullage.ledger.service.views import Evaluator

T = TypeVar("T", bound=Object)


class NoIdentity(Terminal):
    """A request whose object has no uid or version yet: it cannot be told from others, so it cannot be booked."""


@dataclass(frozen=True, slots=True)
class Addressed:
    """A charge, and the ledger that it is for."""

    ledger: str
    charge: Charge


def charge_of(review: Review, kind: Kind[T], evaluator: Evaluator[T], *, past_limit: bool = False) -> Addressed | None:
    """What a request asks of a ledger; None where there is nothing to ask: a deletion, or an object that takes nothing.

    Raises `Unreadable`, which names the field, where the object would take less than nothing; and whatever the evaluator does
    where an object that could be counted no longer can.
    """
    if review.operation not in ("CREATE", "UPDATE"):
        return None
    new = review.object(kind)
    ledger = evaluator.ledger_of(new)
    if not ledger:
        return None
    old = review.old(kind) if review.operation == "UPDATE" else None
    had = _takes(old, evaluator) if old is not None else NOTHING
    wanted = _takes(new, evaluator)
    if isinstance(wanted, Exception):
        if isinstance(had, Exception):
            return None  # as unreadable as it was: it is in no sum, and must be able to lose its finalizers
        raise _refused(wanted)
    if not wanted:
        return None
    meta = new.metadata if old is None else old.metadata
    if not meta.uid or (old is not None and not meta.resource_version):
        raise NoIdentity(f"{kind.name} {meta.name!r}: the request carries no uid")
    charge = Charge(
        key=key_of(kind.name, cluster=review.cluster, namespace=review.namespace, name=meta.name or review.name),
        uid=meta.uid,
        on_version=None if old is None else int(meta.resource_version),
        now=wanted,
        # Moved here from another ledger, the whole object is new to this one. So it is where nobody can tell what it took.
        old=had if old is not None and not isinstance(had, Exception) and evaluator.ledger_of(old) == ledger else NOTHING,
        dry_run=review.dry_run,
        past_limit=past_limit,
    )
    return Addressed(ledger, charge)


def _takes(obj: T, evaluator: Evaluator[T]) -> Takings | Exception:
    try:
        return evaluator.takes(obj)
    except Exception as error:  # what an object takes may be unreadable in any way
        return error


def _refused(error: Exception) -> Exception:
    return Unreadable(error.where, f"{error.given}: {error.problem}") if isinstance(error, BadAmount) else error
