"""Keeps what objects are stamped to take true after their cut: gathers, has the rules decide, and writes in a safe order.

Whatever rises is written, and thereby booked, before anything falls. A write that fails ends the run: the next one begins with
what is there then. A snapshot that is about to go, or to be written by another controller, is lowered a moment later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Source
from ullage.kube.controller.outcome import Outcome, listed
from ullage.kube.controller.reconciler import Reconciler, ReconcilerWiring
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Cell
from ullage.ledger.charging.plans import read_plan
from ullage.ledger.charging.raising import restamp
from ullage.ledger.charging.stamps import CHARGED_NAMESPACE, ESTIMATED_BY
from ullage.ledger.charging.waiting import ARRIVED
from ullage.ledger.keys import ledger_name
from ullage.space.accounts import bytes_of, payers, vm_cell
from ullage.space.controllers.follow.facts import Facts, Payers
from ullage.space.controllers.follow.lookup import Lookup
from ullage.space.controllers.follow.model import Change, Cut, SnapshotSide, ordered
from ullage.space.controllers.follow.payers import ByBackup, payer_of, wanted, wanted_of_backup
from ullage.space.controllers.follow.targets import BACKUP, VOLUME, Target, Targets
from ullage.space.quota import spelled
from ullage.vms.api.backups import VirtualMachineBackup

# Which virtual machines pay for the snapshots of a claim, as things are now.


def payers_by(lookup: Lookup, is_limited: Callable[[str, Cell], bool]) -> Payers:
    """`is_limited` tells of a ledger and an account of it: those with a limit go first. What is there is charged whatever
    their number, to as many as can be."""

    def found(namespace: str, claim: str) -> tuple[str, ...]:
        ledger = ledger_name(namespace)
        machines = (one.metadata for one in lookup.machines_using(Key(namespace, claim)))
        return payers(machines, limited=lambda vm: is_limited(ledger, vm_cell(vm)), strict=False)

    return found


AT_ONCE: Final = 16  # writes that are on their way: a disk that is plugged elsewhere changes all its snapshots
SOON: Final = 1.0  # seconds in which other controllers have written a snapshot that they are about to write


class Follower(Reconciler[Target]):
    name = "follow"
    workers = 8

    def __init__(self, wiring: ReconcilerWiring, lookup: Lookup, payers: Payers) -> None:
        super().__init__(wiring)
        self._lookup = lookup
        self._facts = Facts(self.client, lookup, payers)
        self._targets = Targets(lookup, self._facts)
        self._writing = asyncio.Semaphore(AT_ONCE)
        self._since: dict[Target, dict[str, float]] = {}  # when each that is left alone was first seen so, by uid

    def sources(self) -> list[Source[Any, Target]]:
        return self._targets.sources()

    async def reconcile(self, target: Target) -> Outcome:
        own = await self._cuts(target)
        backups = self._backups(target, own)
        others = await self._cuts_of_backups(backups, but=target)
        changes = [change for cut in own for change in wanted(cut)]
        elsewhere = [change for cut in others for change in wanted(cut)]
        changes += self._of_backups(backups, [*own, *others])
        # What else moves about there is not known here: there, nothing is lowered from here.
        kept = {one.bearer.uid for one in elsewhere} - {one.bearer.uid for one in changes}
        alone, seconds = self._left_alone(target, own)
        plan = ordered({one.bearer.uid: one for one in (*elsewhere, *changes)}.values())
        lowers = [one for one in plan.lowers if one.bearer.uid not in kept | alone]
        written = await self._write(lowers, await self._write(plan.raises, {}))
        stamped = {one.bearer.uid: one for one in (*plan.raises, *lowers) if one.bearer.uid in written}
        done = (f"stamps written: {listed(map(_takes, stamped.values()))}",) if stamped else ()
        return Outcome(_object_of(target), done, after=seconds or None)

    def _left_alone(self, target: Target, cuts: Iterable[Cut]) -> tuple[set[str], float]:
        """Returns the snapshots that are not lowered now, and the seconds until they are, unless something changes before.

        One whose record is gone is about to go, and its charge with it. One that is cut and does not say so is about to be
        written: two writes at the same moment meet, and one of them is refused."""
        uids = {one.bearer.uid for cut in cuts if target.what != VOLUME for one in _about_to_change(cut)}
        now, before = self.clock.monotonic(), self._since.pop(target, {})
        if not uids:
            return uids, 0.0
        since = self._since[target] = {uid: before.get(uid, now) for uid in uids}
        left = {uid: seconds for uid, begun in since.items() if (seconds := begun + SOON - now) > 0}
        return set(left), min(left.values(), default=0.0)

    # --- gathering ---

    async def _cuts(self, target: Target) -> list[Cut]:
        if target.what == VOLUME:
            return await self._facts.of_volume(target.name)
        for side in self._lookup.sides:
            if side.dialect.name == target.what:
                return await self._facts.of_snapshot(side, Key(target.namespace, target.name))
        return []

    def _backups(self, target: Target, cuts: Iterable[Cut]) -> list[VirtualMachineBackup]:
        """Those that pay for any of the cuts, or may have until now."""
        found: dict[str, VirtualMachineBackup] = {}
        if target.what == BACKUP:
            asked = self._lookup.backup(Key(target.namespace, target.name))
            found |= {asked.metadata.uid: asked} if asked is not None else {}
        members = [one for cut in cuts for pair in cut.pairs if (one := pair.snapshot) is not None and one.claim]
        for claim in dict.fromkeys(Key(one.bearer.namespace, one.claim) for one in members):
            found |= {one.metadata.uid: one for one in self._lookup.backups_planning(claim)}
        return list(found.values())

    async def _cuts_of_backups(self, backups: Iterable[VirtualMachineBackup], *, but: Target) -> list[Cut]:
        targets = dict.fromkeys(self._targets.of_backups(backups))
        return [cut for target in targets if target != but for cut in await self._cuts(target)]

    def _of_backups(self, backups: Iterable[VirtualMachineBackup], cuts: Iterable[Cut]) -> Iterator[Change]:
        """Each cut is looked at once, however many backups there are: each of them pays for a few."""
        claims: defaultdict[str, set[str]] = defaultdict(set)
        paid: defaultdict[str, list[Cut]] = defaultdict(list)
        for cut in cuts:
            for pair in cut.pairs:
                if pair.snapshot is not None and pair.snapshot.cut:
                    claims[pair.snapshot.backup].add(pair.snapshot.claim)
            if isinstance(payer := payer_of(cut), ByBackup):
                paid[payer.uid].append(cut)
        for backup in backups:
            uid, plan = backup.metadata.uid, read_plan(backup.metadata)
            side = self._facts.backup_side(backup, all_cut=bool(plan) and claims[uid] >= plan.keys())
            if (change := wanted_of_backup(side, paid[uid])) is not None:
                yield change

    # --- writing ---

    async def _write(self, changes: Iterable[Change], written: dict[str, Meta]) -> dict[str, Meta]:
        """Gives the objects as they are then: some are written twice."""
        done = dict(written)

        async def write(change: Change) -> None:
            meta = done.get(change.bearer.uid, change.bearer.meta)
            told = {CHARGED_NAMESPACE: change.namespace, ESTIMATED_BY: change.by}
            also = {mark: value for mark, value in told.items() if value}
            if change.arrived:
                also |= ARRIVED
            async with self._writing:
                with contextlib.suppress(NotFound):  # it went meanwhile, and the caches will say so
                    found = await restamp(self.client, change.bearer.kind, meta, change.stamp, also=also)
                    done[change.bearer.uid] = found.metadata

        async with asyncio.TaskGroup() as group:
            for change in changes:
                group.create_task(write(change))
        return done


def _object_of(target: Target) -> str:
    """The target in the words of the log: `snapshot team-a/nightly`."""
    return str(target if target.what in (VOLUME, BACKUP) else target._replace(what="snapshot"))


def _takes(change: Change) -> str:
    """What the log says of a stamp: `VolumeSnapshot nightly takes 10Gi`."""
    return f"{change.bearer.kind.kind} {change.bearer.meta.name} takes {spelled(bytes_of(change.stamp))}"


def _about_to_change(cut: Cut) -> Iterator[SnapshotSide]:
    """The snapshots of a cut that other controllers are about to let go, or to write the status of."""
    for pair in cut.pairs if cut.engine is None else ():
        if (snapshot := pair.snapshot) is not None:
            going = snapshot.bearer.going
            if pair.record is None if going else snapshot.cut and not snapshot.told:
                yield snapshot
