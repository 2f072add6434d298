"""What a process has seen of one kind of objects that set limits, ledger by ledger."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ullage.clock import Clock, SystemClock
from ullage.kube.cache.cache import Cache
from ullage.kube.client.interface import Finder
from ullage.kube.kinds import Kind, Object
from ullage.ledger.amounts import Limits, lowest
from ullage.ledger.fold import Live
from ullage.ledger.keys import key_of
from ullage.ledger.limiting.in_flight import LimitView, SeenLimits
from ullage.ledger.service.views import REMEMBER_SECONDS, Gone, read_live

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)


@dataclass(frozen=True)
class LimitEvaluator(Generic[T]):
    """Which ledger an object sets limits in, and which: two functions of the object alone. The name of the ledger is empty
    where it sets none anywhere."""

    ledger_of: Callable[[T], str]
    limits_of: Callable[[T], Limits]


class KindLimits(Generic[T]):
    """A cache of objects that set limits. Make it before the cache runs or after: it is told of what is there."""

    def __init__(
        self,
        cache: Cache[T],
        evaluator: LimitEvaluator[T],
        *,
        client: Finder,
        clock: Clock | None = None,
    ) -> None:
        if not cache.whole:
            raise ValueError(f"{cache.kind.name}: a cache of some objects knows too few limits")
        self.cache = cache
        self._evaluator = evaluator
        self._client = client
        self._clock = clock or SystemClock()
        self._gone = Gone(REMEMBER_SECONDS)
        self._seen: dict[str, tuple[str, SeenLimits]] = {}  # by key: the ledger, and the object
        self._keys: dict[str, set[str]] = {}  # by ledger: the keys of objects that set limits there
        self._listeners: list[Callable[[str], None]] = []
        cache.handle(self._change)

    @property
    def kind(self) -> Kind[T]:
        return self.cache.kind

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def synced(self) -> bool:
        return self.cache.synced.is_set()

    @property
    def followed(self) -> bool:
        return self.synced and not self.cache.doubtful

    def of(self, ledger: str) -> LimitView:
        return _LimitsWindow(ledger, self)

    async def live(self, key: str) -> Live:
        """What the server itself has under a ledger key."""
        return await read_live(self._client, self.kind, key)

    def handle(self, changed: Callable[[str], None]) -> None:
        """Has every ledger told in which limits are set, changed or taken away."""
        self._listeners.append(changed)
        for ledger in list(self._keys):
            changed(ledger)

    # --- for windows ---

    def position(self) -> int:
        return self.cache.position()

    def limits(self, ledger: str) -> Limits:
        keys = self._keys.get(ledger)
        return lowest(self._seen[key][1].limits for key in sorted(keys)) if keys else {}

    def seen(self, key: str) -> SeenLimits | None:
        found = self._seen.get(key)
        return found[1] if found is not None else None

    def gone(self, uid: str) -> bool:
        return uid in self._gone

    # --- from the cache ---

    def _change(self, old: T | None, new: T | None) -> None:
        some = new if new is not None else old
        if some is None:
            return
        key = key_of(self.kind.name, namespace=some.metadata.namespace, name=some.metadata.name)
        before = self._seen.pop(key, None)
        if before is not None:
            self._forget(key, before[0])
        if new is None:
            self._gone.add(some.metadata.uid, self._clock.monotonic())
        else:
            self._gone.discard(new.metadata.uid)  # a backup brings back what went
            after = self._seen[key] = self._evaluated(key, new, before)
            if after[1].limits:
                self._keys.setdefault(after[0], set()).add(key)
        self._tell(before, self._seen.get(key))

    def _evaluated(self, key: str, obj: T, before: tuple[str, SeenLimits] | None) -> tuple[str, SeenLimits]:
        ledger = self._evaluator.ledger_of(obj)
        uid, version = obj.metadata.uid, int(obj.metadata.resource_version)
        try:
            limits = self._evaluator.limits_of(obj) if ledger else {}
        except Exception:  # limits that cannot be read take no others away: what the object said before holds on
            logger.exception("limits cannot be read", extra={"key": key, "ledger": ledger})
            limits = before[1].limits if before is not None and before[1].uid == uid and before[0] == ledger else {}
        return ledger, SeenLimits(uid, version, limits)

    def _forget(self, key: str, ledger: str) -> None:
        keys = self._keys.get(ledger)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del self._keys[ledger]

    def _tell(self, before: tuple[str, SeenLimits] | None, after: tuple[str, SeenLimits] | None) -> None:
        limits = [(one[0], dict(one[1].limits)) if one is not None and one[1].limits else None for one in (before, after)]
        if limits[0] == limits[1]:
            return
        for ledger in dict.fromkeys(one[0] for one in limits if one is not None):
            for changed in self._listeners:
                changed(ledger)


class _LimitsWindow:
    """One ledger's part of it."""

    __slots__ = ("_ledger", "_view")

    def __init__(self, ledger: str, view: KindLimits[Any]) -> None:
        self._ledger = ledger
        self._view = view

    @property
    def position(self) -> int:
        return self._view.position()

    @property
    def limits(self) -> Limits:
        return self._view.limits(self._ledger)

    def get(self, key: str) -> SeenLimits | None:
        return self._view.seen(key)

    def gone(self, uid: str) -> bool:
        return self._view.gone(uid)
