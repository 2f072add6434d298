"""Whether more runs in a namespace than its share, and what is said of it. Pure."""

from __future__ import annotations

from ullage.headroom.accounts import VMS
from ullage.ledger.accounts import passed
from ullage.ledger.amounts import spell
from ullage.ledger.book import Book, Over


def passed_shares(book: Book) -> tuple[Over, ...]:
    """The resources of which more is taken than the VMs' share. The other share only ever refuses migrations."""
    return tuple(one for one in passed(book) if one.account == VMS)


def exceeded_note(over: tuple[Over, ...]) -> str:
    """`What runs takes 3 cores of cpu, 1 core more than the share of 2 cores: …`"""
    said = "; ".join(_over(one) for one in over)
    return (
        f"What runs takes {said}. Nothing is stopped; until it fits, VMs are not created or changed but to stop or to shrink."
    )


def within_note(namespace: str) -> str:
    return f"What runs in namespace {namespace} fits its share again: VMs may be created and changed."


def _over(one: Over) -> str:
    taken, limit = spell(one.resource, one.used + one.reserved), spell(one.resource, one.limit, down=True)
    return f"{taken} of {one.resource}, {spell(one.resource, one.over)} more than the share of {limit}"
