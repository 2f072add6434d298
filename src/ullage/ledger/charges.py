"""From an admission request to a charge: what the object would take, and what it takes now.

Only in the validating phase: before it, an object has neither its final name nor a uid.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeVar

from ullage.errors import Terminal
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.review import Review, Unreadable
from ullage.ledger.amounts import NOTHING, BadAmount, Takings
from ullage.ledger.book import Charge
from ullage.ledger.keys import key_of
from ullage.ledger.service.views import Evaluator
from ullage.names import SUBDOMAIN_LIMIT, is_label

T = TypeVar("T", bound=Object)

LONGEST_UID: Final = 64  # characters; they have 36
_ODD: Final = re.compile(r"[/%\x00-\x20\x7f]")
_VERSION: Final = re.compile(r"[0-9]{0,18}")


class NoIdentity(Terminal):
    """A request whose object has no uid or version yet: it cannot be told from others, so it cannot be booked."""


@dataclass(frozen=True, slots=True)
class Addressed:
    """A charge, and the ledger that it is for."""

    ledger: str
    charge: Charge


def charge_of(review: Review, kind: Kind[T], evaluator: Evaluator[T], *, past_limit: bool = False) -> Addressed | None:
    """What a request asks of a ledger; None where there is nothing to ask: a deletion, an object that takes nothing, or
    one that took it before anybody could read so.

    Raises `Unreadable`, which names the field, where the object would take less than nothing or is called as nothing can be;
    and whatever the evaluator does where an object that could be counted no longer can.
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
    stays = old is not None and evaluator.ledger_of(old) == ledger
    if not wanted or (past_limit and stays and isinstance(had, Exception)):
        # Nothing of its kind is counted in this ledger until all that are there can be read. To book each that is mended
        # meanwhile would fill the ledger, and then the rest of them could not be mended any more.
        return None
    meta = new.metadata if old is None else old.metadata
    if not meta.uid or (old is not None and not meta.resource_version):
        raise NoIdentity(f"{kind.name} {meta.name!r}: the request carries no uid")
    name = meta.name or review.name
    _refuse_odd(kind, review.namespace, name, meta)
    charge = Charge(
        key=key_of(kind.name, cluster=review.cluster, namespace=review.namespace, name=name),
        uid=meta.uid,
        on_version=None if old is None else int(meta.resource_version),
        now=wanted,
        # Moved here from another ledger, the whole object is new to this one. So it is where nobody can tell what it took.
        old=had if stays and not isinstance(had, Exception) else NOTHING,
        dry_run=review.dry_run,
        past_limit=past_limit,
    )
    return Addressed(ledger, charge)


def _refuse_odd(kind: Kind[T], namespace: str, name: str, meta: Meta) -> None:
    """What no API server sends, and whoever speaks for another cluster could: it would be booked, and nobody could ever look
    whether there is such an object."""
    if not name or len(name) > SUBDOMAIN_LIMIT or _ODD.search(name) or name in (".", ".."):
        raise Unreadable("metadata.name", "nothing can be called that")
    if bool(namespace) != kind.namespaced or (namespace and not is_label(namespace)):
        raise Unreadable("metadata.namespace", "no namespace can be called that")
    if len(meta.uid) > LONGEST_UID or _ODD.search(meta.uid):
        raise Unreadable("metadata.uid", "this is no uid")
    if not _VERSION.fullmatch(meta.resource_version):
        raise Unreadable("metadata.resourceVersion", "this is no version")


def _takes(obj: T, evaluator: Evaluator[T]) -> Takings | Exception:
    try:
        return evaluator.takes(obj)
    except Exception as error:  # what an object takes may be unreadable in any way
        return error


def _refused(error: Exception) -> Exception:
    return Unreadable(error.where, f"{error.given}: {error.problem}") if isinstance(error, BadAmount) else error
