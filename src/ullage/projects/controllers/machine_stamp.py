"""Stamps the Machines of all user clusters: binds what admission has stamped, and stamps anew what is wrong or has none.

A server may run already, so what is stamped anew is booked past the limit, and never counts less than the record has of its
uid. It waits until there is a record: what is older than that was there before us, and alarms nobody. What somebody else
takes off again each time is written later and later. A cluster that lets us wait keeps no other one waiting (`Turns`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Generic, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter

from ullage.clock import Clock
from ullage.errors import BadInput, Retryable
from ullage.kube.cache.indexer import Key
from ullage.kube.clusters.cluster import Cluster as FollowedCluster
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.clusters.waking import SourceElsewhere, wake
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.controller.rewrites import Rewrites
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.slices import Write
from ullage.ledger.amounts import Amounts, spell
from ullage.projects.api.kkp import CLUSTERS
from ullage.projects.api.machines import MACHINES, Machine
from ullage.projects.api.records import MACHINE_RECORDS
from ullage.projects.charging.keys import StampKeys
from ullage.projects.charging.machines import ChargedClusters
from ullage.projects.charging.presence import RecordedMachines
from ullage.projects.machines.counting import Counted, Resize, count, sized_anew
from ullage.projects.machines.digests import BadSpec
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.reading import machine_facts
from ullage.projects.machines.signatures import sign_bound, verify
from ullage.projects.machines.updates import GUARDED
from ullage.projects.names import RESOURCES
from ullage.projects.sizes.lookups import Unknown
from ullage.projects.sizes.source import SizeSource
from ullage.times import read_time

# What is done about a Machine's stamp.


@dataclass(frozen=True, slots=True)
class Bind:
    """To be signed again, over the uid and with the key of today, for what it says."""

    amounts: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class StampAnew:
    """To be stamped with what it takes. `alarm`: somebody is to be told, as `reason` and `message` say."""

    amounts: Amounts
    reason: str
    message: str
    alarm: bool


@dataclass(frozen=True, slots=True)
class Unsized:
    """Nobody knows what it takes, so it cannot be stamped."""

    message: str


def step(found: Counted | Resize, size: Amounts | None, *, problem: str = "") -> Bind | StampAnew | Unsized | None:
    """`size` is what its spec costs by now; `problem` why that cannot be told. None: it is as it ought to be."""
    if isinstance(found, Counted):
        return Bind(found.amounts) if found.bind else None
    amounts = sized_anew(found, size)
    if amounts is None:
        return Unsized(f"{found.message}; and its size is not known: {problem}")
    return StampAnew(amounts=amounts, reason=found.reason, message=found.message, alarm=found.alarm)


def anew_note(machine: str, wanted: StampAnew) -> str:
    """What administrators of the seed are told."""
    said = ", ".join(f"{name} {spell(name, wanted.amounts[name])}" for name in RESOURCES)
    return (
        f"Machine {machine} has no stamp that can be believed: {wanted.message}. It was stamped anew and counts, whatever the"
        f" quota is: {said}. Next: find out who changes Machines there, or takes the webhook out"
    )


def unsized_note(machine: str, unsized: Unsized) -> str:
    return (
        f"What Machine {machine} takes cannot be counted, so the project's usage is not exact: {unsized.message}. Next: give"
        " the machine a size that is known, or delete it"
    )


# Who may write now, where many clusters are written to and each decides how long that takes. Whoever administers a user
# cluster can have every write there wait for a webhook of his own. If all workers waited with it, no other cluster
# would be served. So no more than a few are at work in one cluster; what comes on top waits in line, and is named when
# one of them is done. Pure bookkeeping.


K = TypeVar("K", bound=Hashable)

AT_ONCE: Final = 2  # in one cluster


class Turns(Generic[K]):
    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._busy: defaultdict[str, int] = defaultdict(int)
        self._line: defaultdict[str, dict[K, None]] = defaultdict(dict)

    def take(self, cluster: str, key: K) -> bool:
        """Whether it is the key's turn. If not, it is in line from now on. If so, `end` is to be called, whatever comes of it:
        those in line are named by nobody else."""
        if self._busy[cluster] >= self._at_once:
            self._line[cluster][key] = None
            return False
        self._busy[cluster] += 1
        return True

    def end(self, cluster: str) -> K | None:
        """One is done. Who was longest in line, to be tried again; None: nobody is."""
        self._busy[cluster] -= 1
        if not self._busy[cluster]:
            del self._busy[cluster]
        line = self._line.get(cluster)
        if not line:
            return None
        found = next(iter(line))
        del line[found]
        if not line:
            del self._line[cluster]
        return found

    def __len__(self) -> int:
        """How many are at work or in line."""
        return sum(self._busy.values()) + sum(map(len, self._line.values()))


NAME: Final = "machine-stamp"
WATCHES: Final[tuple[Kind[Any], ...]] = (CLUSTERS, MACHINE_RECORDS)
WRITES: Final[tuple[Write, ...]] = ()
ELSEWHERE: Final[tuple[Kind[Any], ...]] = (MACHINES,)

UNTIL_RECORDED: Final = 1.0  # seconds between two looks whether there is a record
UNTIL_KNOWN: Final = 30.0  # seconds between two looks whether a size is known
EACH: Final = 1000  # machines of a cluster: for each so many it is as long again, since each of them may have no size
UNTIL_STORED: Final = 5.0  # seconds until it is looked whether a stamp is there: what a webhook takes out nobody tells
AFTER_REFUSAL: Final = 60.0  # seconds; nothing tells when whoever refused does not any more
WORKERS: Final = 32  # each waits for a user cluster, and none of them for long
PATCH_SECONDS: Final = 15.0  # that a write may take there, with all webhooks that it has
REGISTERING: Final = timedelta(minutes=1)  # that it may take from the record until the hooks are asked
STAMPED_ANEW: Final = Reason("MachineStampedAnew", type="Warning")
NOT_SIZED: Final = Reason("MachineNotSized", type="Warning")


class SlowCluster(Retryable):
    """A user cluster did not take a stamp in time."""


class MachineKey(NamedTuple):
    cluster: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.namespace}/{self.name}"


class StampMetrics:
    """How many stamps were written, and how many were wrong."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.written = Counter(
            "ullage_project_machine_stamps", "Stamps of Machines that were written", ["what"], registry=registry
        )
        self.wrong = Counter(
            "ullage_project_machine_stamps_wrong",
            "Stamps of Machines that were missing or not ours, and alarmed",
            ["reason"],
            registry=registry,
        )


class MachineStamps:
    def __init__(
        self,
        clusters: Clusters,
        charged: ChargedClusters,
        *,
        keys: StampKeys,
        recorded: RecordedMachines,
        sizes: SizeSource,
        recorder: EventRecorder,
        metrics: StampMetrics,
        clock: Clock,
    ) -> None:
        self._clusters = clusters
        self._charged = charged
        self._keys = keys
        self._recorded = recorded
        self._sizes = sizes
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._rewrites: defaultdict[str, Rewrites[str]] = defaultdict(Rewrites)  # by cluster, by uid
        self._turns: Turns[MachineKey] = Turns()
        self._again: Callable[[MachineKey], None] = lambda key: None

    def controller(self, *, workers: int = WORKERS, metrics: Metrics | None = None) -> Controller[MachineKey]:
        synced: list[Source[Any, MachineKey]] = [
            Source(self._charged.objects, lambda one: ()),
            Source(self._recorded.records, lambda one: ()),
        ]
        made = Controller(
            NAME, synced, self.reconcile, workers=workers, clock=self._clock, metrics=metrics, after_terminal=AFTER_REFUSAL
        )
        self._again = made.queue.add
        self._clusters.handle(self._followed)
        wake(made.queue, self._clusters, SourceElsewhere(MACHINES, _key, when=_matters, only=self._charged.__contains__))

        def keys_changed() -> None:
            for key in self._all():
                made.queue.add(key)

        self._keys.handle(keys_changed)
        return made

    def _all(self) -> Iterable[MachineKey]:
        for name in self._clusters.names:
            followed = self._clusters.get(name)
            if followed is not None and name in self._charged:
                yield from (key for machine in followed.cache(MACHINES).items() for key in _key(name, machine))

    def _followed(self, name: str, cluster: FollowedCluster | None) -> None:
        """Of what went nothing is kept, be it a Machine or the whole cluster."""
        if cluster is None:
            self._rewrites.pop(name, None)
        if cluster is None or name not in self._charged:
            return

        def changed(old: Machine | None, new: Machine | None) -> None:
            if old is not None and new is None and name in self._rewrites:
                self._rewrites[name].forget(old.metadata.uid)

        cluster.cache(MACHINES).handle(changed)

    async def reconcile(self, key: MachineKey) -> Requeue | None:
        if not self._turns.take(key.cluster, key):
            return None  # it is in line, and comes again
        try:
            return await self._reconcile(key)
        finally:
            if (longest := self._turns.end(key.cluster)) is not None:
                self._again(longest)

    async def _reconcile(self, key: MachineKey) -> Requeue | None:
        followed, record = self._clusters.get(key.cluster), self._recorded.records.get(Key("", key.cluster))
        machine = followed.cache(MACHINES).get(Key(key.namespace, key.name)) if followed is not None else None
        if followed is None or machine is None or key.cluster not in self._charged:
            return None
        if record is None:
            return Requeue(UNTIL_RECORDED)
        facts = machine_facts(key.cluster, machine)
        found = count(
            facts,
            verify(facts, self._keys.current),
            remembered=self._recorded.remembered(key.cluster, machine.metadata.uid),
            asked_since=_after(read_time(record.metadata.creation_timestamp), REGISTERING),
        )
        size, problem = (None, "") if isinstance(found, Counted) else self._size(facts)
        wanted = step(found, size, problem=problem)
        if wanted is None:
            return None
        if isinstance(wanted, Unsized):
            self._alarm(key, NOT_SIZED, unsized_note(str(key), wanted))
            return Requeue(UNTIL_KNOWN * (1 + len(followed.cache(MACHINES)) // EACH))
        return await self._stamp(followed, machine, facts, wanted, key=key)

    def _size(self, facts: MachineFacts) -> tuple[Amounts | None, str]:
        try:
            found = self._sizes.size_of(facts.cluster, facts.provider_spec)
        except BadInput as error:
            return None, str(error)
        if not isinstance(found, Unknown):
            return found, ""
        if found.lookup is not None:
            self._sizes.want(found.lookup)
        return None, found.reason

    async def _stamp(
        self, followed: FollowedCluster, machine: Machine, facts: MachineFacts, wanted: Bind | StampAnew, *, key: MachineKey
    ) -> Requeue | None:
        uid, what = machine.metadata.uid, (wanted.amounts, type(wanted))
        if wait := self._rewrites[key.cluster].wait(uid, what, self._clock.monotonic()):
            return Requeue(wait)
        try:
            marks = sign_bound(facts, wanted.amounts, self._keys.current, now=self._clock.now()).marks()
        except BadSpec as error:
            self._alarm(key, NOT_SIZED, unsized_note(str(key), Unsized(str(error))))
            return None
        try:
            await _write(followed, machine, marks)
        except NotFound:
            return None  # it went meanwhile, and the cache will say so
        self._rewrites[key.cluster].wrote(uid, what, self._clock.monotonic())
        self._metrics.written.labels("bound" if isinstance(wanted, Bind) else "anew").inc()
        if isinstance(wanted, StampAnew) and wanted.alarm:
            self._metrics.wrong.labels(wanted.reason).inc()
            self._alarm(key, STAMPED_ANEW, anew_note(str(key), wanted))
        return Requeue(UNTIL_STORED) if isinstance(wanted, StampAnew) else None

    def _alarm(self, key: MachineKey, reason: Reason, note: str) -> None:
        """On the Cluster, which is on the seed: where administrators look, and users of the cluster do not write."""
        cluster = self._charged.get(key.cluster)
        if cluster is not None:
            self._recorder.record(CLUSTERS, cluster, reason, note=note)


async def _write(followed: FollowedCluster, machine: Machine, marks: dict[str, str]) -> None:
    meta = machine.metadata
    try:
        async with asyncio.timeout(PATCH_SECONDS):
            await followed.client.patch(
                MACHINES,
                meta.name,
                meta.namespace,
                merge={"metadata": {"annotations": marks}},
                uid=meta.uid,
                resource_version=meta.resource_version,
            )
    except TimeoutError as error:
        raise SlowCluster(f"a write took more than {PATCH_SECONDS:.0f} s") from error


def _key(cluster: str, machine: Machine) -> Iterable[MachineKey]:
    return (MachineKey(cluster, machine.metadata.namespace, machine.metadata.name),)


def _matters(old: Machine | None, new: Machine | None) -> bool:
    if old is None or new is None:
        return new is not None
    return old.spec.provider_spec != new.spec.provider_spec or _marks(old) != _marks(new)


def _marks(machine: Machine) -> list[str | None]:
    return [machine.metadata.annotations.get(mark) for mark in GUARDED]


def _after(moment: datetime | None, more: timedelta) -> datetime | None:
    return None if moment is None else moment + more
