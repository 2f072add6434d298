"""Divides each quota over the seeds, so that no two of them can spend the same room. Keys are projects.

The record is written on the quota's own object, on condition that it is the one that was read; what it says is carried to the
seeds' ledgers. Whoever is killed between two steps, or takes them on an old view, does no harm (`projects/escrow`). A seed that
cannot be asked, or whose ledger cannot be read, is passed as not seen, and never with what was read of it before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from typing import Any, Final, Protocol

from ullage.clock import Clock
from ullage.errors import BadInput, Terminal
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Listing
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.objects import find_condition, is_deleting
from ullage.kube.slices import Write
from ullage.ledger.amounts import Amounts
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.codec import READY, WITHIN_LIMITS
from ullage.ledger.service.limits import Outdated, set_limits
from ullage.projects.api.kkp import PROJECTS, SEEDS, SETTINGS, Seed
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.controllers.quota_escrow_rules import (
    AFTER_DOUBT,
    EscrowFacts,
    Forget,
    last_taken,
    last_usage,
    left_by,
    lifted,
    seconds_of_doubt,
    steps,
)
from ullage.projects.escrow.divisions import OF_MACHINES, Division
from ullage.projects.escrow.record import has_record, heir, leading, read_record, record_patch
from ullage.projects.escrow.seeds import SeedLedger, seed_ledger
from ullage.projects.escrow.steps import Carry, Record, look_again
from ullage.projects.escrow.terms import Escrow
from ullage.projects.metrics import ProjectMetrics
from ullage.projects.names import is_project_id
from ullage.projects.quota import limits_of
from ullage.projects.seed_marks import is_dead, is_draining, is_gone
from ullage.projects.seeds import Seeds, answering
from ullage.projects.subjects import Defaults, QuotaLookup

logger = logging.getLogger(__name__)

WATCHES: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS, PROJECTS, SEEDS, SETTINGS)
ELSEWHERE: Final[tuple[Kind[Any], ...]] = (LEDGERS,)
WRITES: Final = (Write(PROJECT_QUOTAS, ("patch",)),)
WORKERS: Final = 8  # some may wait for a seed
ROUNDS: Final = 5  # records in one run: each is looked at again, and there is rarely more than one


class RecordClient(Patcher, Protocol):
    """What is needed of a client."""

    async def list(self, kind: Kind[Any]) -> Listing[Any]: ...


class QuotaEscrow:
    """The controller of grants."""

    def __init__(
        self,
        client: RecordClient,
        lookup: QuotaLookup,
        seeds: Seeds,
        *,
        defaults: Defaults,
        metrics: ProjectMetrics,
        clock: Clock,
        division: Division = OF_MACHINES,
    ) -> None:
        self._division = division
        self._client = client
        self._lookup = lookup
        self._seeds = seeds
        self._metrics = metrics
        self._clock = clock
        self._defaults = defaults
        self._noted: dict[str, tuple[float, list[Carry]]] = {}  # by project without a quota: limits that are to go, since when
        self._listed: frozenset[str] = frozenset()  # the projects that had a quota
        self._listed_at = 0.0
        self._listing = asyncio.Lock()
        self._handed: dict[str, Escrow] = {}  # by project: the record of a quota that went, for the one that comes after it

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            Source(self._lookup.quotas, lambda quota: (Key("", quota.spec.subject.name),), when=_matters),
            self._seeds.source(self._every),
            *self._defaults.sources(lambda project: (Key("", project),)),
        ]
        found = Controller(self._division.name, sources, self.reconcile, workers=WORKERS, clock=self._clock, metrics=metrics)
        self._seeds.wake_by_reach(found.queue, self._every)
        self._seeds.wake_by_ledgers(found.queue, self._of_ledger, when=self._shows_otherwise)
        return found

    def _every(self, seed: str) -> Iterable[Key]:
        """Also projects without a quota that the seed has limits of: nothing else wakes these when it comes back unchanged."""
        ledgers = self._seeds.last_ledgers(seed)
        left = {key for ledger in ledgers.items() for key in self._of_ledger(seed, ledger)} if ledgers is not None else set()
        return left | {Key("", quota.spec.subject.name) for quota in self._lookup.quotas.items()}

    async def reconcile(self, key: Key) -> Requeue | None:
        if not is_project_id(key.name):
            return None
        quota = leading(self._lookup.of(key.name))
        if quota is None:
            return await self._lift(key.name)
        self._noted.pop(key.name, None)
        for _ in range(ROUNDS):
            facts = self._facts(quota)
            if facts is None:
                return None
            found = steps(facts, now=self._clock.now())
            if not found or isinstance(found[0], Carry):
                await self._carry(key.name, [step for step in found if isinstance(step, Carry)])
                return self._again(facts.record)
            written = await self._write(quota, found[0])
            if written is None:
                return None
            self._hand_over(facts, found[0])
            quota = written
        return Requeue(0.0)

    async def _lift(self, project: str) -> Requeue | None:
        """Ledgers of a project without a quota have no limits. Here there is no record that guards a write: so whether there is
        none is asked of the server, or whoever hears of quotas late would take limits away that another has just carried."""
        found = lifted(self._seen(project))
        default = self._defaults.limits(project)
        if not found or default is None or limits_of(default):
            self._noted.pop(project, None)
            # A default is on its way, and takes over what the seeds have; or a seed is back whose ledgers are still in doubt.
            return Requeue(self._doubt()) if self._is_in_doubt() else None
        since, noted = self._noted.get(project, (0.0, []))
        if noted != found:
            self._noted[project] = (self._clock.monotonic(), found)
            return Requeue(AFTER_DOUBT)
        if project in await self._listed_since(since):
            return Requeue(AFTER_DOUBT)
        await self._carry(project, found)
        self._noted.pop(project, None)
        return None

    async def _listed_since(self, since: float) -> frozenset[str]:
        """The projects that have a quota, whatever it is called, by a list that began after that moment and not long ago. One
        does for all who ask at once: a seed that comes back may have limits of thousands that have none any more."""
        async with self._listing:
            now = self._clock.monotonic()
            if self._listed_at <= since or self._listed_at < now - AFTER_DOUBT:
                there = (await self._client.list(PROJECT_QUOTAS)).items
                self._listed, self._listed_at = frozenset(one.spec.subject.name for one in there), now
            return self._listed

    # --- gather ---

    def _facts(self, quota: ResourceQuota) -> EscrowFacts | None:
        """None: the record cannot be read. The quota's status says so, and nothing is granted or taken back."""
        try:
            record = read_record(quota.metadata, self._division.annotation)
        except BadInput as error:
            logger.error("record of grants cannot be read", extra={"quota": quota.metadata.name, "error": str(error)})
            return None
        project = quota.spec.subject.name
        if not has_record(quota.metadata, self._division.annotation) and not is_deleting(quota.metadata):
            record = self._handed.get(project, record)
        found = {seed.metadata.name: seed for seed in self._seeds.objects.items()}
        dead = {name: self._left(seed, quota, record) for name, seed in found.items() if is_dead(seed)}
        return EscrowFacts(
            quota=quota,
            record=record,
            seeds=self._seen(project),
            draining=frozenset(name for name, seed in found.items() if is_draining(seed)),
            dead={name: left for name, left in dead.items() if left is not None},
            given_up=frozenset(dead),
            gone=frozenset(name for name, seed in found.items() if is_gone(seed)),
            division=self._division,
            heir=heir(quota, self._lookup.of(project), self._defaults.limits(project)) if is_deleting(quota.metadata) else None,
        )

    def _seen(self, project: str) -> dict[str, SeedLedger | None]:
        return {seed: self._ledger(seed, project) for seed in self._seeds.names}

    def _ledger(self, seed: str, project: str) -> SeedLedger | None:
        ledgers = self._seeds.ledgers(seed)
        if ledgers is None:
            return None
        try:
            return seed_ledger(ledgers.get(self._key(project)), self._division.account)
        except Terminal as error:  # not written by us, or by a later version
            logger.warning("ledger of a seed cannot be read", extra={"seed": seed, "project": project, "error": str(error)})
            return None

    def _left(self, seed: Seed, quota: ResourceQuota, record: Escrow) -> Amounts | None:
        """Of two figures of a dead seed the larger one: its ledger also has what was reserved there."""
        name = seed.metadata.name
        said = last_taken(record, name) if self._division.keeps_taken else last_usage(quota.status, name)
        ledgers = self._seeds.last_ledgers(name)
        ledger = ledgers.get(self._key(quota.spec.subject.name)) if ledgers is not None else None
        if ledger is not None:
            with contextlib.suppress(Terminal):
                taken = seed_ledger(ledger, self._division.account).taken
                said = taken if said is None else said | taken
        return left_by(seed, last=said)

    # --- act ---

    async def _write(self, quota: ResourceQuota, step: Record | Forget) -> ResourceQuota | None:
        """The quota as it is then; None: it is gone. A Conflict where anything of it has changed: look again."""
        record = step.escrow if isinstance(step, Record) else None
        try:
            written = await patch_seen(self._client, PROJECT_QUOTAS, quota, record_patch(record, self._division.annotation))
        except NotFound:
            return None
        self._metrics.steps.labels("record" if record is not None else "forget").inc()
        return written

    def _hand_over(self, facts: EscrowFacts, step: Record | Forget) -> None:
        """The next quota of the project may come while a seed is out of reach that this one knew. Only as long as this process
        runs: another one sees what the seeds have, and gives none of them more than that at first."""
        project = facts.quota.spec.subject.name
        self._handed.pop(project, None)
        if isinstance(step, Forget) and facts.heir is not None and facts.record.shares:
            self._handed[project] = facts.record

    async def _carry(self, project: str, found: Iterable[Carry]) -> None:
        """All at once, and each by itself: a seed that fails is tried again, and the others have theirs."""
        done = await asyncio.gather(*(self._carry_to_seed(project, step) for step in found), return_exceptions=True)
        if failed := [one for one in done if isinstance(one, BaseException)]:
            raise BaseExceptionGroup("some seeds could not be told their limits", failed)

    async def _carry_to_seed(self, project: str, step: Carry) -> None:
        client = self._seeds.client(step.seed)
        if client is None:
            return
        async with answering(step.seed):
            with contextlib.suppress(Outdated):  # somebody else was quicker, and whoever looks again sees it
                await set_limits(
                    client,
                    self._division.ledger_name(project),
                    self._division.carried(step.limits),
                    number=step.number,
                    about=self._division.account,
                    grants=self._division.carried(step.grants),
                )
        self._metrics.steps.labels("carry").inc()

    def _key(self, project: str) -> Key:
        return Key(LEDGER_NAMESPACE, self._division.ledger_name(project))

    def _of_ledger(self, seed: str, ledger: Ledger) -> Iterable[Key]:
        project = self._division.project_in(ledger.metadata.name)
        return (Key("", project),) if project else ()

    def _shows_otherwise(self, old: Ledger | None, new: Ledger | None) -> bool:
        """Bookings come and go; what counts is what limits there are, what is asked for, and whether they are kept."""
        if old is None or new is None or _shown(old) != _shown(new):
            return True
        return self._division.keeps_taken and _booked(old) != _booked(new)

    def _again(self, record: Escrow) -> Requeue | None:
        now = self._clock.now()
        moment = look_again(record, now=now)
        waits = [] if moment is None else [(moment - now).total_seconds()]
        if self._is_in_doubt():
            waits.append(self._doubt())
        return Requeue(min(waits)) if waits else None

    def _is_in_doubt(self) -> bool:
        return any(self._seeds.reach(seed).reachable and self._seeds.ledgers(seed) is None for seed in self._seeds.names)

    def _doubt(self) -> float:
        return seconds_of_doubt(len(self._lookup.quotas))


def _matters(old: ResourceQuota | None, new: ResourceQuota | None) -> bool:
    """Usage is written all the time, and what a dead seed used last does not change any more."""
    if old is None or new is None:
        return True
    one, other = old.metadata, new.metadata
    return (one.annotations, one.deletion_timestamp, old.spec) != (other.annotations, other.deletion_timestamp, new.spec)


def _shown(ledger: Ledger) -> object:
    status = ledger.status
    said = (find_condition(status.conditions, type) for type in (READY, WITHIN_LIMITS))
    conditions = tuple((one.status, one.observed_generation) if one is not None else None for one in said)
    return ledger.spec, status.change, status.observed_generation, status.demand, conditions


def _booked(ledger: Ledger) -> object:
    return ledger.status.sums, ledger.status.pending
