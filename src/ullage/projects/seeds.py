"""Which seeds there are, on the master: every Seed is a cluster that is followed, with the kubeconfig of its Secret.

What is watched there are the copies of quotas and the ledgers of projects. A seed that cannot be reached is told as such, and
nothing that was read of it before is given in the place of what is there now.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from typing import Any, Final, TypeVar

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.clusters.cluster import Cluster, Reach
from ullage.kube.clusters.clusters import KUBECONFIG
from ullage.kube.clusters.waking import SourceElsewhere, reach_watch, wake
from ullage.kube.controller.controller import Source
from ullage.kube.controller.queue import Queue
from ullage.kube.errors import Unavailable
from ullage.kube.kinds import Kind
from ullage.kube.slices import Wiring
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.names import is_label
from ullage.projects.api.kkp import SEEDS, Seed
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

WATCHES: Final[tuple[Kind[Any], ...]] = (SEEDS,)
ELSEWHERE: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS, LEDGERS)
ANSWER_SECONDS: Final = 5.0  # that a seed has for one call: one that is silent must not keep the others waiting


class Seeds:
    """All seeds of the master. Made once in a process, by the part that watches them."""

    def __init__(self, wiring: Wiring, *, namespace: str) -> None:
        self.objects: Final = wiring.cache(SEEDS, namespace=namespace)
        self._namespace = namespace
        self._secrets = wiring.secrets_in(namespace)
        self._clusters = wiring.clusters
        self._reaches = wiring.shared(reach_watch)
        self._followed: set[str] = set()
        self._problems: dict[str, str] = {}
        self._clusters.handle(self._came)
        self.objects.handle(self._changed)

    # --- which there are ---

    @property
    def names(self) -> list[str]:
        return sorted(seed.metadata.name for seed in self.objects.items())

    def get(self, seed: str) -> Seed | None:
        return self.objects.get(Key(self._namespace, seed))

    # --- how they are ---

    def reach(self, seed: str) -> Reach:
        if seed in self._followed:
            return self._clusters.reach(seed)
        return Reach(reachable=False, error=self._problems.get(seed, "there is no such seed"))

    def client(self, seed: str) -> Client | None:
        """For writes there; None: there are no credentials that can be used."""
        found = self._cluster(seed)
        return None if found is None else found.client

    def copies(self, seed: str) -> Cache[ResourceQuota] | None:
        """The quotas of a seed, as they are there now; None where it cannot be reached."""
        found = self._cluster(seed)
        return found.cache(PROJECT_QUOTAS) if found is not None and found.reach.reachable else None

    def ledgers(self, seed: str) -> Cache[Ledger] | None:
        """The ledgers of a seed, as they are there now; None where nobody can tell."""
        cache = self.last_ledgers(seed)
        return cache if cache is not None and self.reach(seed).reachable and not cache.doubtful else None

    def last_ledgers(self, seed: str) -> Cache[Ledger] | None:
        """The ledgers as they were when the seed was last heard of; None: that is not known."""
        found = self._cluster(seed)
        return None if found is None else found.cache(LEDGERS, namespace=LEDGER_NAMESPACE)

    # --- for controllers ---

    def source(self, every: Callable[[str], Iterable[K]]) -> Source[Seed, K]:
        """Wakes whatever depends on a seed when that comes, is changed by somebody, or goes; and has a controller wait until
        it is known which seeds there are."""
        return Source(self.objects, lambda seed: every(seed.metadata.name), when=_other_seed)

    def wake_by_reach(self, queue: Queue[K], every: Callable[[str], Iterable[K]]) -> None:
        """Wakes whatever depends on a seed when that can be read, and when it cannot any more."""

        def told(cluster: str) -> None:
            if cluster in self._followed:
                for key in every(cluster):
                    queue.add(key)

        self._reaches.handle(told)

    def wake_by_copies(
        self,
        queue: Queue[K],
        keys: Callable[[str, ResourceQuota], Iterable[K]],
        when: Callable[[ResourceQuota | None, ResourceQuota | None], bool] = lambda old, new: True,
    ) -> None:
        wake(queue, self._clusters, SourceElsewhere(PROJECT_QUOTAS, keys, when=when, only=self._followed.__contains__))

    def wake_by_ledgers(
        self,
        queue: Queue[K],
        keys: Callable[[str, Ledger], Iterable[K]],
        when: Callable[[Ledger | None, Ledger | None], bool],
    ) -> None:
        only = self._followed.__contains__
        wake(queue, self._clusters, SourceElsewhere(LEDGERS, keys, when=when, only=only, namespace=LEDGER_NAMESPACE))

    # --- inside ---

    def _cluster(self, seed: str) -> Cluster | None:
        return self._clusters.get(seed) if seed in self._followed else None

    def _came(self, name: str, cluster: Cluster | None) -> None:
        """All of it is read from the beginning, whoever asks for it first: by that the seed is in reach or not."""
        if cluster is not None and name in self._followed:
            cluster.cache(PROJECT_QUOTAS)
            cluster.cache(LEDGERS, namespace=LEDGER_NAMESPACE)

    def _changed(self, old: Seed | None, new: Seed | None) -> None:
        seed = new or old
        assert seed is not None
        name = seed.metadata.name
        problem = "" if new is None else self._problem(new)
        if problem and problem != self._problems.get(name):
            logger.warning("seed cannot be followed", extra={"seed": name, "error": problem})
        if new is None or problem:
            self._leave(name, problem)
            return
        self._problems.pop(name, None)
        self._followed.add(name)
        self._clusters.follow(name, self._secrets, Key(self._namespace, new.spec.kubeconfig.name), trusted=True)

    def _leave(self, name: str, problem: str) -> None:
        self._problems.pop(name, None)
        if problem:
            self._problems[name] = problem
        if name in self._followed:
            self._clusters.remove(name)  # tells everybody, who still have to know it for a seed then
            self._followed.discard(name)

    def _problem(self, seed: Seed) -> str:
        name = seed.metadata.name
        if name in self._clusters and name not in self._followed:
            return f"a cluster that is called {name} is followed already"
        return problem_of(seed, namespace=self._namespace)


def problem_of(seed: Seed, *, namespace: str) -> str:
    """Why a seed cannot be followed, as its object is; empty where it can. Pure."""
    name, reference = seed.metadata.name, seed.spec.kubeconfig
    if not is_label(name):
        return f"metadata.name: {name!r} has dots or more than 63 characters: such a seed cannot be followed"
    if not reference.name:
        return "spec.kubeconfig.name: it is empty; it names the Secret with the kubeconfig"
    if (reference.namespace or namespace) != namespace:
        return f"spec.kubeconfig.namespace: {reference.namespace}; only Secrets in namespace {namespace} are read"
    if (reference.field_path or KUBECONFIG) != KUBECONFIG:
        return f"spec.kubeconfig.fieldPath: {reference.field_path}; only the key {KUBECONFIG} is read"
    return ""


def _other_seed(old: Seed | None, new: Seed | None) -> bool:
    """What is written into its status, others are interested in."""
    if old is None or new is None:
        return True
    one, other = old.metadata, new.metadata
    return (one.annotations, one.deletion_timestamp, old.spec) != (other.annotations, other.deletion_timestamp, new.spec)


@contextlib.asynccontextmanager
async def answering(seed: str, seconds: float = ANSWER_SECONDS) -> AsyncIterator[None]:
    """Around calls of a seed: no answer in time is none, and it is tried again."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unavailable(f"seed {seed}: no answer within {seconds:g} s", reason="NoAnswer") from error
