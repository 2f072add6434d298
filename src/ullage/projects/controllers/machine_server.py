"""Asks providers about the servers of Machines that went, and writes what they say into the cluster's MachineRecord.

Keys are clusters: one question is about all that went there. It is asked at once, and again while any of them counts: half a
minute later, and then less and less often. A provider that does not answer is asked later and later, and the set time counts.
After every question there is a pause, the longer the longer it took: a cluster that loses Machines all the time keeps neither
its provider busy nor those who ask.

Of Secrets only those are read that the Cluster names as its credential, as for the catalogue of sizes. A cluster that is gone
is not asked about: its credential goes with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, Counter

from ullage.clock import Clock
from ullage.kube.backoff import Backoff
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import patch_status
from ullage.kube.client.interface import ObjectClient
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.slices import Wiring, Write
from ullage.projects.api.kkp import CLUSTERS, SEEDS, Cluster
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.records import MACHINE_RECORDS, MachineRecord
from ullage.projects.machines.vanished import Vanished, answered
from ullage.projects.records import vanished_in, written_vanished
from ullage.projects.servers.contract import ServerSource
from ullage.projects.servers.registry import SERVERS
from ullage.projects.settings import Settings
from ullage.projects.sizes.providers.contract import NotAnswered
from ullage.projects.sizes.providers.secrets import read_credentials
from ullage.projects.sizes.sites import NO_CREDENTIAL, Sites, SitesWith, provider_of

# Which Machines that went a provider is asked about, when it is asked again, and what comes of its answer.


REST: Final = "rest"  # in the place of a uid: many, of which nobody can be asked
SOONEST: Final = timedelta(seconds=30)  # between two questions about one cluster
LONGEST: Final = timedelta(minutes=10)  # between them where servers are left behind for long


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the record is to say of those that went. `left` are those whose servers are there, and were not known to be."""

    vanished: tuple[Vanished, ...]
    left: tuple[str, ...] = ()


def uid_of(cluster: str, one: Vanished) -> str:
    """Empty: it is not about one Machine of this cluster."""
    prefix = f"{MACHINES.name}/{cluster}/"
    uid = one.key.removeprefix(prefix) if one.key.startswith(prefix) else ""
    return "" if uid == REST or "/" in uid else uid


def asked_about(cluster: str, vanished: Iterable[Vanished]) -> tuple[str, ...]:
    """Their uids."""
    return tuple(uid for one in vanished if (uid := uid_of(cluster, one)))


def again_in(vanished: Sequence[Vanished], *, now: datetime) -> timedelta:
    """How long until it is worth another question: the longer servers are left behind, the longer."""
    youngest = max((one.since for one in vanished), default=now)
    return min(max(SOONEST, (now - youngest) / 4), LONGEST)


def outcome(
    cluster: str, vanished: Iterable[Vanished], uids: Collection[str], present: Collection[str], *, asked: datetime
) -> Outcome:
    """Those that nobody asked about, since they went later or there are too many, stay as they are."""
    kept: list[Vanished] = []
    left: list[str] = []
    for one in vanished:
        uid = uid_of(cluster, one)
        if uid not in uids:
            kept.append(one)
            continue
        found = answered(one, "there" if uid in present else "gone", asked=asked)
        if found is not None:
            kept.append(found)
            if found.there is not None and one.there is None:
                left.append(uid)
    return Outcome(tuple(kept), tuple(left))


def left_note(cluster: str, uids: Sequence[str], provider: str) -> str:
    """What administrators of the seed are told."""
    named = ", ".join(uids[:5]) + (f" and {len(uids) - 5} more" if len(uids) > 5 else "")
    return (
        f"Machines of cluster {cluster} are gone, and their servers are still there, as {provider} says. They count until the"
        f" servers are gone. Their uids, which the servers are marked with: {named}. Next: delete these servers, and find out"
        " who took the finalizers off"
    )


logger = logging.getLogger(__name__)

NAME: Final = "machine-server"
WATCHES: Final[tuple[Kind[Any], ...]] = (CLUSTERS, SEEDS, MACHINE_RECORDS)
WRITES: Final = (Write(MACHINE_RECORDS, ("get",)), Write(MACHINE_RECORDS, ("patch",), ("status",)))
WORKERS: Final = 4  # clusters that are asked about at the same time
SECONDS: Final = 90.0  # that a provider has for all of its pages
PAUSE: Final = 5.0  # seconds between two questions about one cluster, whatever goes there meanwhile
IDLE: Final = 2.0  # times as long as a question took, if that is more: others have turns
UNANSWERED: Final = Backoff(first=30.0, cap=600.0)
LEFT_BEHIND: Final = Reason("ServersLeftBehind", type="Warning")
_ATTEMPTS: Final = 4


class ServerMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.questions = Counter(
            "ullage_project_server_questions",
            "Times that a provider was asked whether servers are gone",
            labelnames=["provider", "result"],
            registry=registry or CollectorRegistry(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCaches:
    records: Cache[MachineRecord]
    clusters: Cache[Cluster]


@dataclass(slots=True)
class _Asked:
    until: float = 0.0  # no sooner, unless others go
    paused: float = 0.0  # no sooner, whatever goes
    failures: int = 0
    uids: frozenset[str] = frozenset()  # that were answered about

    def wait(self, uids: Collection[str], now: float) -> float:
        """Seconds until it is time to ask about these; 0: now."""
        known = self.failures or self.uids.issuperset(uids)
        return max(0.0, (max(self.until, self.paused) if known else self.paused) - now)


class MachineServers:
    """The controller. `providers` are asked; where any other has made the servers, nobody is."""

    def __init__(
        self,
        client: ObjectClient,
        caches: ServerCaches,
        sites: Sites,
        *,
        recorder: EventRecorder,
        clock: Clock,
        providers: Mapping[str, ServerSource] = SERVERS,
        metrics: ServerMetrics | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._client = client
        self._caches = caches
        self._sites = sites
        self._recorder = recorder
        self._clock = clock
        self._providers = providers
        self._metrics = metrics or ServerMetrics()
        self._seconds = seconds
        self._asked: dict[str, _Asked] = {}  # by cluster

    def controller(self, *, metrics: Metrics | None = None) -> Controller[str]:
        sources: list[Source[Any, str]] = [
            Source(self._caches.records, _name, when=_vanished_otherwise),
            Source(self._caches.clusters, _name, when=_other_cloud),
        ]
        return Controller(NAME, sources, self.reconcile, workers=WORKERS, clock=self._clock, metrics=metrics)

    async def reconcile(self, name: str) -> Requeue | None:
        cluster, record = self._caches.clusters.get(Key("", name)), self._caches.records.get(Key("", name))
        vanished = vanished_in(record) if record is not None else ()
        uids = asked_about(name, vanished)
        now, track = self._clock.monotonic(), self._asked.get(name) or _Asked()
        provider = self._providers.get(provider_of(cluster)) if cluster is not None else None
        if cluster is None or not uids or provider is None or self._sites(name).credential == NO_CREDENTIAL:
            return self._rest(name, track, now)
        self._asked[name] = track
        if wait := track.wait(uids, now):
            return Requeue(wait)
        at = self._clock.now()
        present = await self._present(cluster, provider, uids)
        ended = self._clock.monotonic()
        track.paused = ended + max(PAUSE, IDLE * (ended - now))
        if present is None:
            track.failures += 1
            track.until = ended + UNANSWERED.delay(track.failures)
        else:
            track.failures, track.uids = 0, frozenset(uids)
            track.until = ended + again_in(vanished, now=at).total_seconds()
            await self._write(cluster, uids, present, at=at)
        return Requeue(max(0.0, track.until - self._clock.monotonic()))

    def _rest(self, name: str, track: _Asked, now: float) -> Requeue | None:
        """There is nothing to ask. When the last question was is remembered until its pause is over."""
        if now < track.paused:
            track.failures, track.uids = 0, frozenset()
            return Requeue(track.paused - now)
        self._asked.pop(name, None)
        return None

    async def _present(self, cluster: Cluster, provider: ServerSource, uids: Collection[str]) -> frozenset[str] | None:
        """None: it has not answered."""
        name, named = cluster.metadata.name, provider_of(cluster)
        site = self._sites(name)
        try:
            credentials = await read_credentials(self._client, site.credential)
            async with asyncio.timeout(self._seconds):
                found = await provider.present(uids, credentials, site=site)
        except (NotAnswered, TimeoutError) as error:
            reason = str(error) or f"it did not answer within {self._seconds:g} s"
        except Exception as error:  # a bug in an adapter is a failure of one cluster, and its text may have anything in it
            logger.exception("a provider could not be asked for servers", extra={"cluster": name})
            reason = f"an error of Ullage ({type(error).__name__}), which its log shows"
        else:
            self._metrics.questions.labels(named, "answered").inc()
            return found
        self._metrics.questions.labels(named, "failed").inc()
        logger.warning("whether servers are gone could not be asked", extra={"cluster": name, "reason": reason})
        return None

    async def _write(self, cluster: Cluster, uids: Collection[str], present: Collection[str], *, at: Any) -> None:
        """Reads it again: more may have gone, or come back, while the provider was asked."""
        name = cluster.metadata.name
        for _ in range(_ATTEMPTS):
            record = await self._client.find(MACHINE_RECORDS, name)
            if record is None:
                return
            found = outcome(name, vanished_in(record), uids, present, asked=at)
            status = msgspec.structs.replace(record.status, vanished=written_vanished(found.vanished))
            try:
                await patch_status(self._client, MACHINE_RECORDS, record, old=record.status, new=status)
            except Conflict:
                continue
            except NotFound:
                return
            if found.left:
                self._recorder.record(CLUSTERS, cluster, LEFT_BEHIND, note=left_note(name, found.left, provider_of(cluster)))
            return


def _name(obj: Cluster | MachineRecord) -> Iterable[str]:
    return (obj.metadata.name,)


def _vanished_otherwise(old: MachineRecord | None, new: MachineRecord | None) -> bool:
    return old is None or new is None or old.status.vanished != new.status.vanished


def _other_cloud(old: Cluster | None, new: Cluster | None) -> bool:
    return old is None or new is None or old.spec.cloud != new.spec.cloud


def make_servers(wiring: Wiring, settings: Settings) -> Controller[str]:
    """For a part that declares WATCHES and WRITES."""
    caches = ServerCaches(records=wiring.cache(MACHINE_RECORDS), clusters=wiring.cache(CLUSTERS))
    metrics, recorder = ServerMetrics(wiring.metrics.registry), wiring.recorder("projects")
    sites = wiring.shared(SitesWith(settings.seed_namespace))
    found = MachineServers(wiring.client, caches, sites, recorder=recorder, clock=wiring.clock, metrics=metrics)
    return found.controller(metrics=wiring.metrics)
