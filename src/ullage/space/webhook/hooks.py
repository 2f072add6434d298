"""All hooks of the slice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from ullage.clock import Clock
from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.engines.handles import NAMESPACE as ENGINE_NAMESPACE
from ullage.kube.identities import is_own
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.ledger.charging.plans import read_plan
from ullage.ledger.charging.registry import Registry, registry_of
from ullage.ledger.charging.stamps import CHARGED_NAMESPACE, Marks
from ullage.ledger.charging.waiting import ACCOUNT, MOST_WAITING, PLACE, waits
from ullage.ledger.keys import ledger_name
from ullage.ledger.service.limits import LimitsApi, set_limits
from ullage.policies.counts.webhook.room import Room
from ullage.quantity import Quantity
from ullage.snapshots.api.ga.translation import GA
from ullage.space.charges import DIALECTS
from ullage.space.lookup import SpaceLookup
from ullage.space.webhook.backups import Backups, Members, ObservedBackups, Planner
from ullage.space.webhook.charging import ChargingHooks
from ullage.space.webhook.engine_snapshots import EngineSnapshots
from ullage.space.webhook.payment import Payment, next_step
from ullage.space.webhook.volume_snapshots import VolumeSnapshots
from ullage.vms.api.backups import VM_BACKUPS

# Records, of both APIs: their VolumeSnapshots pay for them. One that stays when its VolumeSnapshot goes is booked in
# its place, past the limit if need be, and by us alone.


class Records:
    """See `charging.Terms`."""

    async def fresh(self, review: Review) -> Marks:
        return {}

    async def happened(self, review: Review) -> bool:
        return True

    def trusts(self, review: Review) -> bool:
        return is_own(review)

    async def shares(self, review: Review, amount: int) -> Mapping[str, int]:
        return {}

    def next_step(self, review: Review) -> str:
        annotations = (review.object_json().get("metadata") or {}).get("annotations") or {}
        return next_step(review, str(annotations.get(CHARGED_NAMESPACE, "")))


# Has the ledger of a namespace limit how many snapshots wait there for claims that have no volume. Most namespaces have
# none of those, and need no ledger for it: it is made, or gets this limit, once a tenth as many are there as may be, or
# were let pass by this process: its cache may be behind. Those that are created in the moment until then are counted in
# it, too. From then on the ledger alone decides.


PART: Final = 10  # of the limit, from which on there is a ledger that has it
BEHIND: Final = 60.0  # seconds by which a cache may be behind
MOST_NAMESPACES: Final = 10_000  # that are remembered with what was let pass


@dataclass(slots=True)
class _Passed:
    """Snapshots that this process let pass, while there is no limit. Deleted ones are among them: it only comes earlier."""

    since: float
    count: int = 0


class WaitingLimit:
    def __init__(self, client: LimitsApi, registry: Registry, *, most: int, clock: Clock) -> None:
        self._client = client
        self._registry = registry
        self._most = most
        self._clock = clock
        self._passed: dict[str, _Passed] = {}  # by ledger

    async def uphold(self, review: Review, kind: Kind[Object]) -> None:
        """Before a new snapshot is booked. One whose claim has a volume costs no look."""
        if review.dry_run or not waits(review.object(kind).metadata):
            return
        ledger = ledger_name(review.namespace)
        limit = Quantity.of(self._most)
        if self._registry.is_limited(ledger, PLACE, to=str(limit)):
            self._passed.pop(ledger, None)
            return
        passed = self._of(ledger)
        there = max(self._registry.counted(ledger)[PLACE].value(), passed.count)
        if self._registry.is_limited(ledger, PLACE) or there * PART >= self._most:
            await set_limits(self._client, ledger, {PLACE: limit}, about=ACCOUNT)
            return
        passed.count += 1

    def _of(self, ledger: str) -> _Passed:
        now, found = self._clock.monotonic(), self._passed.get(ledger)
        if found is None or now - found.since > BEHIND:
            if len(self._passed) >= MOST_NAMESPACES:
                self._passed.clear()
            found = self._passed[ledger] = _Passed(now)
        return found


def make_hooks(wiring: Wiring, *, backups: bool, most_waiting: int = MOST_WAITING) -> Iterable[Hook]:
    """`backups`: those of virtual machines are ours, and pay for their members. `most_waiting` snapshots of a namespace may
    wait for claims that are not there."""
    registry, lookup = registry_of(wiring), wiring.shared(SpaceLookup)
    payment = Payment(lookup, registry.is_limited)
    is_member = Members(wiring.client).is_paid_for if backups else None
    room, waiting = wiring.shared(Room), WaitingLimit(wiring.client, registry, most=most_waiting, clock=wiring.clock)
    relieve = room.relieve
    for dialect in DIALECTS:
        snapshots = VolumeSnapshots(dialect, wiring.client, lookup, payment, is_member=is_member if dialect is GA else None)
        charged = registry.registered(dialect.snapshots)
        prepare = partial(waiting.uphold, kind=dialect.snapshots)
        hooks = ChargingHooks(dialect.snapshots, charged, snapshots, relieve=relieve, prepare=prepare)
        yield from hooks.hooks(f"space-{dialect.name}-snapshot")
        charged = registry.registered(dialect.records)
        yield from ChargingHooks(dialect.records, charged, Records()).hooks(f"space-{dialect.name}-record")
    engines = EngineSnapshots(wiring.client, lookup, payment)
    inside = ChargingHooks(ENGINE_SNAPSHOTS, registry.registered(ENGINE_SNAPSHOTS), engines)
    yield from inside.hooks("space-engine-snapshot", only_in=(ENGINE_NAMESPACE,))
    planner = Planner(lookup, payment)
    if backups:

        async def check(review: Review) -> Decision | None:
            return await room.refuse_members(review, VM_BACKUPS, read_plan(review.object(VM_BACKUPS).metadata))

        terms = Backups(wiring.client, planner)
        own = ChargingHooks(VM_BACKUPS, registry.registered(VM_BACKUPS), terms, relieve=relieve, check=check)
        yield from own.hooks("space-vm-backup")
    else:
        yield Hook(
            name="space-vm-backup-check",
            phase="validate",
            targets=(Target.of(VM_BACKUPS, "CREATE"),),
            answer=ObservedBackups(registry, planner).validate,
            side_effects="None",
        )
