"""A slice of the product as one value: its kinds, its controllers, its webhooks, and what each of them needs of the API.

The composition root knows slices by nothing else. What a part watches and writes is declared here, once: the roles that
`ullage install` makes follow from it, and a cache of a kind that was not declared is refused when it is asked for, in every
test, and not by the API server of a cluster where the role lacks it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from ullage.clock import Clock, SystemClock
from ullage.kube.builtin.core import SECRETS, Secret
from ullage.kube.cache.cache import Cache
from ullage.kube.client.client import Client
from ullage.kube.clusters.cluster import Cluster
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.clusters.leaving import LeavingClusters
from ullage.kube.controller.controller import Controller
from ullage.kube.events.recorder import Recorder
from ullage.kube.kinds import Kind, Object
from ullage.kube.metrics import Metrics
from ullage.kube.policies import Policy
from ullage.kube.read_limits import ReadLimits
from ullage.kube.review import Hook
from ullage.kube.routes import Route
from ullage.shutdown import done_before

Verb = Literal["get", "create", "update", "patch", "delete"]
T = TypeVar("T", bound=Object)
M = TypeVar("M", covariant=True)
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Write:
    """What is done to a kind, besides watching it. `subresources` are named (`status`); the empty one is the object itself."""

    kind: Kind[Any]
    verbs: tuple[Verb, ...]
    subresources: tuple[str, ...] = ("",)


def _why_not_followed(cluster: str) -> str:
    return f"cluster {cluster} is not followed. Next: try again"


class Wiring:
    """What a slice's factories are handed. Caches are shared: the same kind and selection is the same cache. So is whatever
    a process has one of."""

    def __init__(
        self,
        client: Client,
        *,
        instance: str = "",
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        limits: ReadLimits | None = None,
    ) -> None:
        """`limits` are of other clusters, those that are not believed."""
        self.client = client
        self.limits = limits
        self.instance = instance  # who we are, in Events
        self.clock = clock or SystemClock()
        self.metrics = metrics or Metrics()
        self.held: list[AbstractAsyncContextManager[Any]] = []
        self._caches: dict[tuple[Kind[Any], str, str, str], Cache[Any]] = {}
        self._declared: frozenset[Kind[Any]] = frozenset()
        self._secrets: frozenset[str] = frozenset()  # names that are declared
        self._secret_namespaces: frozenset[str] = frozenset()
        self._shared: dict[Callable[[Wiring], Any], Any] = {}
        self._clusters: Clusters | None = None
        self._leaving: LeavingClusters | None = None
        self.why_not_followed: Callable[[str], str] = _why_not_followed  # told to a cluster that asks nevertheless

    @property
    def clusters(self) -> Clusters:
        """The other clusters that this process follows, for parts that say what they watch `elsewhere`."""
        if self._clusters is None:
            self._clusters = Clusters(self.client.beside, clock=self.clock, metrics=self.metrics, limits=self.limits)
            self.hold(self._clusters)
        return self._clusters

    @property
    def leaving(self) -> LeavingClusters:
        """Clusters that are not followed any more, for a process that has to take its registration out of them."""
        if self._leaving is None:
            clusters = Clusters(self.client.beside, clock=self.clock, limits=self.limits)
            self.hold(clusters)
            self._leaving = LeavingClusters(clusters)
        return self._leaving

    def cluster(self, name: str) -> Cluster:
        """Client and caches in another cluster. Raises LookupError while there are no credentials for it."""
        found = self._clusters.get(name) if self._clusters else None
        if found is None:
            raise LookupError(f"cluster {name}: it is not followed, or its kubeconfig cannot be used")
        return found

    @property
    def caches(self) -> list[Cache[Any]]:
        return list(self._caches.values())

    def cache(self, kind: Kind[T], *, namespace: str = "", labels: str = "", fields: str = "") -> Cache[T]:
        if kind not in self._declared:
            raise LookupError(f"{kind.name}: not among what this part of the slice says that it watches")
        return self._cache(kind, namespace=namespace, labels=labels, fields=fields)

    def secrets(self, name: str, *, namespace: str = "") -> Cache[Secret]:
        """The Secrets of one name, of all namespaces or of one: whoever watches these by their name needs rights on no
        others."""
        if name not in self._secrets:
            raise LookupError(f"secrets called {name}: not among those that this part of the slice says that it reads")
        return self._cache(SECRETS, namespace=namespace, fields=f"metadata.name={name}")

    def secrets_in(self, namespace: str) -> Cache[Secret]:
        """All Secrets of a namespace."""
        if namespace not in self._secret_namespaces:
            raise LookupError(f"secrets in {namespace}: not among those that this part of the slice says that it reads")
        return self._cache(SECRETS, namespace=namespace)

    def _cache(self, kind: Kind[T], *, namespace: str, labels: str = "", fields: str = "") -> Cache[T]:
        key = (kind, namespace, labels, fields)
        if key not in self._caches:
            self._caches[key] = Cache(
                self.client,
                kind,
                namespace=namespace,
                labels=labels,
                fields=fields,
                clock=self.clock,
                metrics=self.metrics,
            )
        found: Cache[T] = self._caches[key]
        return found

    def recorder(self, name: str) -> Recorder:
        """For Events on objects; `name` is that of the slice."""
        recorder = Recorder(self.client, f"ullage.io/{name}", instance=self.instance, clock=self.clock)
        self.hold(recorder)
        return recorder

    def hold(self, manager: AbstractAsyncContextManager[Any]) -> None:
        """Has something entered before the work begins and left after it has ended."""
        self.held.append(manager)

    @asynccontextmanager
    async def holding(self, stop: asyncio.Event) -> AsyncIterator[bool]:
        """Inside the block everything that is held is entered; False: the stop came first. At its end all are left at once:
        each may wait a moment for the API, and a process that was asked to stop has few."""
        entered: list[AbstractAsyncContextManager[Any]] = []

        async def enter() -> None:
            for manager in self.held:
                await manager.__aenter__()
                entered.append(manager)

        try:
            yield await done_before(stop, enter())
        finally:
            leaving = (manager.__aexit__(None, None, None) for manager in reversed(entered))
            failed = [one for one in await asyncio.gather(*leaving, return_exceptions=True) if isinstance(one, BaseException)]
            if failed:
                raise failed[0]

    def shared(self, make: Callable[[Wiring], S]) -> S:
        """What a function makes of this wiring: made when it is first asked for, and the same for everybody."""
        if make not in self._shared:
            self._shared[make] = make(self)
        found: S = self._shared[make]
        return found

    def hooks(self, slices: Sequence[Slice]) -> list[Hook]:
        """All hooks of a process that serves these slices."""
        self._make_shared(slices)
        return [hook for one in slices if one.hooks for hook in self.made(one.hooks)]

    def routes(self, slices: Sequence[Slice]) -> list[Route]:
        """All routes of a process that serves the API of these slices. They stand on nothing that is shared."""
        return [route for one in slices if one.routes for route in self.made(one.routes)]

    def controllers(self, slices: Sequence[Slice]) -> list[Controller[Any]]:
        """All controllers of a process that runs these slices."""
        self._make_shared(slices)
        return [made for one in slices if one.controllers for made in self.made(one.controllers)]

    def _make_shared(self, slices: Sequence[Slice]) -> None:
        for one in slices:
            if one.shared:
                self.made(one.shared)

    def made(self, part: Part[M]) -> list[M]:
        """What a part's factory makes of this wiring."""
        self._declared, self._secrets = frozenset(part.watches), frozenset((*part.named_secrets, *part.own_secrets))
        self._secret_namespaces = frozenset(part.secrets_in)
        if part.elsewhere:
            self.clusters.watch(*part.elsewhere)
        try:
            return list(part.make(self))
        finally:
            self._declared, self._secrets, self._secret_namespaces = frozenset(), frozenset(), frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[M]):
    """The controllers of a slice, or its hooks: how to make them, and what they may do."""

    make: Callable[[Wiring], Iterable[M]]
    watches: tuple[Kind[Any], ...] = ()
    writes: tuple[Write, ...] = ()
    events: bool = False  # writes Events on objects
    secrets: bool = False  # reads the Secrets that classes name: which these are, only a cluster tells
    named_secrets: tuple[str, ...] = ()  # watches the Secrets of these names, in all namespaces
    own_secrets: tuple[str, ...] = ()  # makes and watches the Secrets of these names in our own namespace
    secrets_in: tuple[str, ...] = ()  # watches all Secrets of these namespaces, which are there before us
    elsewhere: tuple[Kind[Any], ...] = ()  # watched in other clusters, with the rights that their kubeconfigs give


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What users get: the cluster's own roles of these names, which administrators give out in a namespace, gather it."""

    name: str  # of ours, within the slice: `edit`
    roles: tuple[Literal["admin", "edit", "view"], ...]
    kinds: tuple[Kind[Any], ...]  # the objects themselves, never their subresources
    verbs: tuple[Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RancherTemplate:
    """A user role once more, as Rancher gives roles out: a RoleTemplate. Made only where that kind is."""

    name: str
    title: str
    description: str
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRole:
    """What nobody gets with a namespace: a cluster role that administrators bind to whom they choose."""

    name: str  # in full
    kinds: tuple[Kind[Any], ...]  # the objects themselves, never their subresources
    verbs: tuple[str, ...]
    template: RancherTemplate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """`kinds` are brought along: their definitions are made where they are missing. `foreign` kinds belong to other products:
    on a cluster they are only ever looked at, and on one machine we play their part. `served` are theirs too, and are taken as
    their owners define them: what our types have beyond that is not needed. A kind that is in `kinds` and `served` is brought
    along where it is missing, and taken as it is where another product has defined it."""

    name: str
    kinds: tuple[Kind[Any], ...] = ()
    foreign: tuple[Kind[Any], ...] = ()
    served: tuple[Kind[Any], ...] = ()
    controllers: Part[Controller[Any]] | None = None
    hooks: Part[Hook] | None = None
    routes: Part[Route] | None = None
    shared: Part[Any] | None = None  # what both stand on: made in either process, of all slices before the rest of any
    sidecar: Part[Controller[Any]] | None = None  # run in other people's pods, under their identities
    grants: tuple[Grant, ...] = ()
    user_roles: tuple[UserRole, ...] = ()
    policies: tuple[Policy, ...] = ()  # what the API server itself holds others to
