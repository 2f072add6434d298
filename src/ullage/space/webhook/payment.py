"""Who pays for the snapshots of a claim: its namespace, and the virtual machines that reference it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ullage.engines.api import Engine
from ullage.engines.model import summed_size
from ullage.kube.kinds import Meta
from ullage.kube.review import Review
from ullage.ledger.amounts import BadAmount, Cell, spell
from ullage.ledger.charging.booking import RESOURCE
from ullage.ledger.charging.methods import CAPACITY, LAST_SNAPSHOT
from ullage.ledger.charging.stamps import AT_MOST, ESTIMATED_BY, FREE, STAMP, BadStamp, Marks, stamp_of
from ullage.ledger.charging.waiting import WAITING
from ullage.ledger.keys import ledger_name
from ullage.quantity import Quantity
from ullage.space.accounts import payers, stamp_for, vm_cell
from ullage.space.estimates import Estimate
from ullage.space.lookup import SpaceLookup

PAID_ELSEWHERE: Final[Marks] = {STAMP: str(FREE)}


class Payment:
    def __init__(self, lookup: SpaceLookup, is_limited: Callable[[str, Cell], bool]) -> None:
        """`is_limited` tells of a ledger and an account of it."""
        self._lookup = lookup
        self._is_limited = is_limited

    def payers(self, namespace: str, claim: str, *, strict: bool = True) -> tuple[str, ...]:
        """The virtual machines. Raises TooManyMachines, unless what they pay for is there already."""
        ledger, machines = ledger_name(namespace), self._lookup.machines_using(namespace, claim)
        return payers(machines, limited=lambda vm: self._is_limited(ledger, vm_cell(vm)), strict=strict)

    def marks(self, estimate: Estimate, namespace: str, claim: str, *, strict: bool = True, waits: bool = False) -> Marks:
        """Those of an object that pays this for a snapshot of the claim. `waits`: what it is to be made of is not there."""
        stamp = stamp_for(estimate.bytes, self.payers(namespace, claim, strict=strict))
        bound = {} if estimate.most is None else {AT_MOST: str(estimate.most)}
        return {STAMP: str(stamp), ESTIMATED_BY: estimate.by, **bound, **(WAITING if waits else {})}


def next_step(review: Review, namespace: str, *, engines: Iterable[Engine | None] = ()) -> str:
    """What works as it is printed; before it, why so much is asked for where that may be too much. `engines` are those of the
    volumes."""
    why = []
    marks = (review.object_json().get("metadata") or {}).get("annotations") or {}
    if marks.get(ESTIMATED_BY) == CAPACITY:
        why.append("what is asked is the capacity of a volume, since nothing tells what is in it")
    if marks.get(ESTIMATED_BY) == LAST_SNAPSHOT:
        why.append("what is asked is what the last snapshot of the volume took, as its StorageClass wants it")
    if summed := sum(map(summed_size, engines)):
        why.append(
            f"{spell(RESOURCE, Quantity.of(summed))} of what is asked are of removed snapshots and may be blocks that were"
            " written anew since: the engine tells only sizes, so the sum counts until its next purge. Ask again after that;"
            " a snapshot that is there and waits is tried again after 5 minutes, then every hour"
        )
    group = "snapshot.storage.k8s.io" if review.resource.resource != "volumesnapshots" else review.resource.group
    step = (
        f"delete snapshots that are not needed any more (kubectl get volumesnapshots.{group} -n {namespace}), or have the limit"
        " raised"
    )
    return f"{step}. Note: {'; '.join(why)}" if why else step


def pays(meta: Meta) -> bool:
    """Whether the stamp of an object names accounts."""
    try:
        return bool(stamp_of(meta).cells)
    except (BadStamp, BadAmount):
        return False
