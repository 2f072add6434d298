"""Who pays for the snapshots of a claim: its namespace, and the virtual machines that reference it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ullage.kube.kinds import Meta
from ullage.kube.review import Review
from ullage.ledger.amounts import BadAmount
from ullage.ledger.book import Book
from ullage.ledger.charging.stamps import ESTIMATED_BY, FREE, STAMP, BadStamp, Marks, stamp_of
from ullage.space.accounts import ledger_name, payers, stamp_for, vm_cell
from ullage.space.estimates import Estimate
from ullage.space.lookup import SpaceLookup

PAID_ELSEWHERE: Final[Marks] = {STAMP: str(FREE)}


class Payment:
    def __init__(self, lookup: SpaceLookup, look: Callable[[str], Book | None]) -> None:
        self._lookup = lookup
        self._look = look  # the book of a ledger, as this process last saw it

    def payers(self, namespace: str, claim: str) -> tuple[str, ...]:
        """The virtual machines. Raises TooManyMachines."""
        book = self._look(ledger_name(namespace))
        limits = book.limits if book is not None else {}
        return payers(self._lookup.machines_using(namespace, claim), limited=lambda vm: vm_cell(vm) in limits)

    def marks(self, estimate: Estimate, namespace: str, claim: str) -> Marks:
        """Those of an object that pays this for a snapshot of the claim."""
        return {STAMP: str(stamp_for(estimate.bytes, self.payers(namespace, claim))), ESTIMATED_BY: estimate.by}


def next_step(review: Review, namespace: str) -> str:
    """What works as it is printed."""
    group = "snapshot.storage.k8s.io" if review.resource.resource != "volumesnapshots" else review.resource.group
    return (
        f"delete snapshots that are not needed any more (kubectl get volumesnapshots.{group} -n {namespace}), or have the limit"
        " raised"
    )


def pays(meta: Meta) -> bool:
    """Whether the stamp of an object names accounts."""
    try:
        return bool(stamp_of(meta).cells)
    except (BadStamp, BadAmount):
        return False
