"""Asks for refused Machines again when their project has room: machine-controller by itself would wait for minutes.

Machine-controller asks for missing Machines when their MachineSet changes. So the sets whose Machines this process refused get
an annotation when the ledger of their project has room for one of them: one set of each MachineDeployment, and no more of them
than have room. Nothing else of the set is written, and its version is no condition, so no other writer is disturbed.

This is memory only: a set whose refusal is forgotten waits for machine-controller's own back-off.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from ullage.clock import Clock
from ullage.errors import Retryable, UllageError
from ullage.kube.backoff import Backoff
from ullage.kube.cache.cache import Cache
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.errors import NotFound
from ullage.kube.slices import Wiring
from ullage.ledger.amounts import Amounts
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger
from ullage.ledger.book import Book
from ullage.ledger.charging.registry import registry_of
from ullage.projects.api.templates import SET_TEMPLATES
from ullage.projects.machines.facts import Room, times
from ullage.projects.webhook.room import room_in
from ullage.projects.webhook.surges import Owners, Surges, shared_surges
from ullage.times import timestamp

logger = logging.getLogger(__name__)

ASKED_AGAIN: Final = "ullage.io/asked-again"  # annotation of a MachineSet: when there was room for its Machines
MOST_REFUSED: Final = 500  # deployments of one cluster; then the one goes that was refused first
BETWEEN: Final = 1.0  # seconds between two looks
PATCH_SECONDS: Final = 15.0
AGAIN: Final = Backoff(first=5.0, cap=300.0)  # between two touches of one deployment that gets no Machines by them


class Owner(NamedTuple):
    """A MachineDeployment of a cluster, or a MachineSet that has none, by uid."""

    cluster: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedSet:
    """A MachineSet whose Machines were refused. `touches` counts those in a row that brought no Machine; `missing` is how many
    Machines it lacked at the last one; `until` is when the next one may be."""

    uid: str
    ledger: str
    size: Amounts
    touches: int = 0
    missing: int = 0
    until: float = 0.0

    def touched(self, missing: int, now: float) -> RefusedSet:
        touches = 1 if missing < self.missing else self.touches + 1
        return replace(self, touches=touches, missing=missing, until=now + AGAIN.delay(touches))

    def is_due(self, missing: int, now: float) -> bool:
        return now >= self.until or missing < self.missing


class RefusedSets:
    """Leave it with `async with`."""

    def __init__(
        self, clusters: Clusters, surges: Surges, *, look: Callable[[str], Book | None], ledgers: Cache[Ledger], clock: Clock
    ) -> None:
        self._clusters = clusters
        self._surges = surges
        self._look_at = look
        self._clock = clock
        self._refused: dict[str, dict[Owner, RefusedSet]] = {}  # by cluster
        self._changed: set[str] = set()  # ledgers
        self._news = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        ledgers.handle(self._ledger_changed)
        clusters.handle(lambda name, cluster: None if cluster is not None else self._forget(name))

    async def __aenter__(self) -> Self:
        self._asking = asyncio.create_task(self._ask(), name="refused MachineSets")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._asking is not None:
            self._asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._asking

    def record(self, cluster: str, ledger: str, owners: Owners, *, size: Amounts) -> None:
        """Remembers that a Machine of a set was refused for want of room. Never raises or waits."""
        if owners.set is None:
            return
        uid = owners.set.metadata.uid
        owner = Owner(cluster, owners.deployment.metadata.uid if owners.deployment is not None else uid)
        refused = self._refused.setdefault(cluster, {})
        known = refused.get(owner)
        if known is not None and (known.uid, known.ledger, known.size) == (uid, ledger, size):
            return
        refused[owner] = RefusedSet(uid=uid, ledger=ledger, size=size)
        if len(refused) > MOST_REFUSED:
            del refused[next(iter(refused))]
        self._note(ledger)  # room may have come since the refusal was decided

    def _ledger_changed(self, old: Ledger | None, new: Ledger | None) -> None:
        if new is not None and self._refused:
            self._note(new.metadata.name)

    def _note(self, ledger: str) -> None:
        self._changed.add(ledger)
        self._news.set()

    def _forget(self, cluster: str) -> None:
        self._refused.pop(cluster, None)

    # --- asking again ---

    async def _ask(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._look()
            except Exception:  # a bug here must not end it for all projects
                logger.exception("refused MachineSets could not be looked at")
            await asyncio.sleep(BETWEEN)

    async def _look(self) -> None:
        """Touches the sets of changed ledgers that have room. Looks again while there is room and Machines are missing."""
        changed, self._changed = self._changed, set()
        for ledger in sorted(changed):
            due, again = self._choose(ledger)
            if again:
                self._note(ledger)
            await asyncio.gather(*(self._touch_all(cluster, uids) for cluster, uids in due.items()))

    def _choose(self, ledger: str) -> tuple[dict[str, list[str]], bool]:
        """The sets to touch, uids by cluster; and whether any has room."""
        book, now = self._look_at(ledger), self._clock.monotonic()
        refused = {owner: one for each in self._refused.values() for owner, one in each.items() if one.ledger == ledger}
        missing = {owner: self._surges.missing(owner.cluster, one.uid) for owner, one in refused.items()}
        for owner in [owner for owner, lacks in missing.items() if not lacks]:
            del self._refused[owner.cluster][owner]
        room = room_in(book) if book is not None else {}
        fitting = choose(((owner, one, missing[owner]) for owner, one in refused.items() if missing[owner]), room)
        due: dict[str, list[str]] = {}
        for owner in fitting:
            if refused[owner].is_due(missing[owner], now):
                self._refused[owner.cluster][owner] = refused[owner].touched(missing[owner], now)
                due.setdefault(owner.cluster, []).append(refused[owner].uid)
        return due, bool(fitting)

    async def _touch_all(self, cluster: str, uids: Iterable[str]) -> None:
        """One after the other, until the cluster does not answer."""
        followed = self._clusters.get(cluster)
        if followed is None:
            return
        for uid in uids:
            found = self._surges.set_by_uid(cluster, uid)
            if found is None:
                continue
            meta, merge = found.metadata, {"metadata": {"annotations": {ASKED_AGAIN: timestamp(self._clock.now())}}}
            where = {"cluster": cluster, "machine_set": meta.name}
            try:
                async with asyncio.timeout(PATCH_SECONDS):
                    await followed.client.patch(SET_TEMPLATES, meta.name, meta.namespace, merge=merge, uid=meta.uid)
            except NotFound:
                continue
            except (Retryable, TimeoutError) as error:
                logger.info("a refused MachineSet will be touched later", extra={**where, "error": str(error) or "no answer"})
                return
            except UllageError as error:
                logger.warning("a refused MachineSet could not be touched", extra={**where, "error": str(error)})
                continue
            logger.info("has refused Machines asked for again", extra=where)


def choose(refused: Iterable[tuple[Owner, RefusedSet, int]], room: Mapping[str, Room]) -> list[Owner]:
    """Those with room for at least one Machine, in the order given, each with how many it lacks. What the ones before may get
    is taken from the room. Pure."""
    chosen: list[Owner] = []
    left = dict(room)
    for owner, one, missing in refused:
        number = min([missing, *(_fit(left[name], one.size, name) for name in left)]) if left else 0
        if number > 0:
            chosen.append(owner)
            asked = times(one.size, number)
            left = {name: replace(each, used=each.used + asked[name]) for name, each in left.items()}
    return chosen


def _fit(room: Room, size: Amounts, resource: str) -> int:
    """How many more there is room for, by one resource; very many where that is not limited."""
    if room.limit is None or not size[resource].nanos:
        return 1 << 31
    free = room.limit - room.used - room.reserved
    return max(0, free.nanos // size[resource].nanos)


def refused_sets(wiring: Wiring) -> RefusedSets:
    """Those of this process: `wiring.shared(refused_sets)`."""
    made = RefusedSets(
        wiring.clusters,
        wiring.shared(shared_surges),
        look=registry_of(wiring).look,
        ledgers=wiring.cache(LEDGERS, namespace=NAMESPACE),
        clock=wiring.clock,
    )
    wiring.hold(made)
    return made
