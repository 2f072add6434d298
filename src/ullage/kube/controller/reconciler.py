"""The base of a controller: it declares what it watches and how fast it acts, and has `sources` and `reconcile`.

The rest follows from the declaration: caches, the queue with its workers and metrics, the clock, and forgetting. How one is
written, with an example: docs/design/controllers.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any, ClassVar, Generic, Protocol, TypeVar, overload

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.controller.outcome import Outcome
from ullage.kube.kinds import Kind, Object
from ullage.kube.metrics import Metrics

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Object)
V = TypeVar("V")


class ReconcilerWiring(Protocol):
    """The part of `kube.slices.Wiring` that a reconciler needs."""

    client: Client
    clock: Clock
    metrics: Metrics

    def cache(self, kind: Kind[T], *, namespace: str = "") -> Cache[T]: ...


class Watched(Generic[T]):
    """Declares a kind that a reconciler reads. In an instance the attribute is the cache of that kind."""

    def __init__(self, kind: Kind[T], *, namespace: str = "") -> None:
        self.kind = kind
        self.namespace = namespace

    @overload
    def __get__(self, reconciler: None, owner: type[Any]) -> Watched[T]: ...

    @overload
    def __get__(self, reconciler: Reconciler[Any], owner: type[Any]) -> Cache[T]: ...

    def __get__(self, reconciler: Reconciler[Any] | None, owner: type[Any]) -> Watched[T] | Cache[T]:
        return self if reconciler is None else reconciler.caches[self]


class Memory(dict[str, V]):
    """What a reconciler remembers of objects, by uid. An entry goes when its object leaves one of the caches `forget_with`.

    With `forget_with=()` the entries outlive their objects, and the reconciler removes them itself.
    """

    def __init__(self, *, forget_with: Iterable[Cache[Any]]) -> None:
        super().__init__()
        for cache in forget_with:
            cache.handle(self._forget)

    def _forget(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None:
            self.pop(old.metadata.uid, None)


class Reconciler(ABC, Generic[K]):
    name: ClassVar[str]  # in metrics and logs
    workers: ClassVar[int] = 4
    pace: ClassVar[float] = 0.0  # seconds, at least, from a run that did something to the next run of the same key

    def __init__(self, wiring: ReconcilerWiring) -> None:
        self.client = wiring.client
        self.clock = wiring.clock
        self.caches = {kind: wiring.cache(kind.kind, namespace=kind.namespace) for kind in self._watched()}
        self._kube_metrics = wiring.metrics

    @classmethod
    def watches(cls) -> tuple[Kind[Any], ...]:
        """The declared kinds, for the `watches` of a slice's `Part`: the rights to read follow from it."""
        return tuple(dict.fromkeys(one.kind for one in cls._watched()))

    @classmethod
    def _watched(cls) -> list[Watched[Any]]:
        return [one for base in cls.__mro__ for one in vars(base).values() if isinstance(one, Watched)]

    @abstractmethod
    def sources(self) -> Iterable[Source[Any, K]]:
        """What wakes the reconciler."""

    @abstractmethod
    async def reconcile(self, key: K) -> Outcome | Requeue | None:
        """Brings one object up to date. Errors decide about the next try: see `kube.controller.controller`."""

    def controller(self) -> Controller[K]:
        """The controller that runs this reconciler, for the slice's list."""
        return Controller(
            self.name,
            list(self.sources()),
            self.reconcile,
            workers=self.workers,
            pace=self.pace,
            clock=self.clock,
            metrics=self._kube_metrics,
        )
