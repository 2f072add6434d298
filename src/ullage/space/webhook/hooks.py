"""All hooks of the slice."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ullage.engines.api import SNAPSHOTS as ENGINE_SNAPSHOTS
from ullage.engines.handles import NAMESPACE as ENGINE_NAMESPACE
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.ledger.charging.plans import read_plan
from ullage.ledger.charging.registry import registry_of
from ullage.ledger.charging.waiting import MOST_WAITING
from ullage.policies.counts.webhook.room import Room
from ullage.snapshots.api.ga.translation import GA
from ullage.space.charges import DIALECTS
from ullage.space.lookup import SpaceLookup
from ullage.space.webhook.backups import Backups, Members, ObservedBackups, Planner
from ullage.space.webhook.charging import ChargingHooks
from ullage.space.webhook.engine_snapshots import EngineSnapshots
from ullage.space.webhook.payment import Payment
from ullage.space.webhook.records import Records
from ullage.space.webhook.volume_snapshots import VolumeSnapshots
from ullage.space.webhook.waiting import WaitingLimit
from ullage.vms.api.backups import BACKUPS


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
            return await room.refuse_members(review, BACKUPS, read_plan(review.object(BACKUPS).metadata))

        terms = Backups(wiring.client, planner)
        own = ChargingHooks(BACKUPS, registry.registered(BACKUPS), terms, relieve=relieve, check=check)
        yield from own.hooks("space-vm-backup")
    else:
        yield Hook(
            name="space-vm-backup-check",
            phase="validate",
            targets=(Target.of(BACKUPS, "CREATE"),),
            answer=ObservedBackups(registry, planner).validate,
            side_effects="None",
        )
