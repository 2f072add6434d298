"""How much is held of one cluster besides our own, in all of its caches together.

A cache reads through a `BudgetedReader`, which weighs every object before the cache has it. What would be too much is never
held: reading ends with `TooLarge`, the cache keeps what it had, and says that this is not what is there now. Everything is read
anew after a while, and once it fits the cache goes on by itself.

While everything is read anew the cache has both, what was there and what comes; each of them is within the budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final, TypeVar

import msgspec

from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.codec import WatchEvent
from ullage.kube.client.reader import PAGE, WATCH_SECONDS, Each, Listing
from ullage.kube.errors import ApiError, TooLarge
from ullage.kube.kinds import Kind, Object
from ullage.kube.read_limits import ReadLimits, object_weight, overlong, shown

T = TypeVar("T", bound=Object)

PAGES: Final = (200, 4)  # objects in a page; fewer where an answer has too much


class Budget:
    """Of one cluster. Each cache counts for what it holds, or for what it reads anew where that is more."""

    def __init__(self, cluster: str, limits: ReadLimits) -> None:
        self.cluster = cluster
        self.limits = limits
        self._shares: list[Share] = []

    def share(self, kind: str) -> Share:
        made = Share(self, kind)
        self._shares.append(made)
        return made

    @property
    def held(self) -> int:
        return sum(share.held for share in self._shares)

    @property
    def counted(self) -> int:
        return sum(share.counted for share in self._shares)

    def check(self, kind: str) -> None:
        if (counted := self.counted) > self.limits.held:
            raise TooLarge(
                f"cluster {self.cluster}: what is watched there takes {shown(counted)} with the next of {kind}, and"
                f" {shown(self.limits.held)} are allowed; what was read before stays. Delete some there, or allow more",
                reason="ClusterTooLarge",
                retry_after=self.limits.again,
            )


class Share:
    """What one cache takes of a budget."""

    def __init__(self, budget: Budget, kind: str) -> None:
        self._budget = budget
        self._kind = kind
        self._held: dict[Key, int] = {}
        self._found: dict[Key, int] = {}  # of what is read anew
        self.held = 0
        self.reading = 0

    @property
    def counted(self) -> int:
        return max(self.held, self.reading)

    def begin(self) -> None:
        """Everything is read anew."""
        self._found, self.reading = {}, 0

    def listed(self, obj: Object) -> None:
        """An object of a list: the list has all that come, also those of one name."""
        weight = self._weight(obj)
        self._found[key_of(obj)] = weight
        self._read(weight)

    def streamed(self, key: Key, obj: Object | None) -> None:
        """An event before everything has come."""
        before, weight = self._found.pop(key, 0), 0
        if obj is not None:
            weight = self._found[key] = self._weight(obj)
        self._read(weight - before)

    def end(self) -> None:
        """Everything has come, and takes the place of what was held."""
        self._held, self._found = self._found, {}
        self.held, self.reading = sum(self._held.values()), 0

    def change(self, key: Key, obj: Object | None) -> None:
        """An event of a watch. Where it is too much, nothing is changed."""
        weight, before = self._weight(obj) if obj is not None else 0, self._held.get(key, 0)
        self.held += weight - before
        try:
            if weight > before:
                self._budget.check(self._kind)
        except TooLarge:
            self.held -= weight - before
            raise
        if obj is not None:
            self._held[key] = weight
        else:
            self._held.pop(key, None)

    def clear(self) -> None:
        """There is no such kind any more."""
        self.begin()
        self.end()

    def _read(self, more: int) -> None:
        self.reading += more
        if more > 0 and self.reading > self.held:
            self._budget.check(self._kind)

    def _weight(self, obj: Object) -> int:
        if problem := overlong(obj.metadata):
            raise TooLarge(f"{self._kind}: {problem}", reason="NameTooLong")
        return object_weight(obj)


class BudgetedReader:
    """The client of a cluster as one cache has it. All of its errors about size name the cluster."""

    def __init__(self, client: Client, kind: str, budget: Budget) -> None:
        self._client = client
        self._share = budget.share(kind)
        self._cluster = budget.cluster
        self._limits = budget.limits

    async def list(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        limit: int = PAGE,
        each: Each[T] | None = None,
    ) -> Listing[T]:
        def weigh(obj: T) -> None:
            _slim(kind, obj)
            self._share.listed(obj)
            if each is not None:
                each(obj)

        for most in PAGES:
            self._share.begin()
            try:
                async with asyncio.timeout(self._limits.seconds):
                    found = await self._client.list(
                        kind,
                        namespace,
                        labels=labels,
                        fields=fields,
                        resource_version=resource_version,
                        limit=min(limit, most) if limit else most,
                        each=weigh,
                    )
            except TooLarge as error:
                self._share.begin()
                if error.reason != "AnswerTooLarge" or most == PAGES[-1]:
                    raise self._named(error) from None
            except TimeoutError:
                self._share.begin()
                text = f"{kind.name}: not all of them have come within {self._limits.seconds:g} s"
                raise self._named(TooLarge(text, reason="TooSlow")) from None
            except BaseException:
                self._share.begin()
                raise
            else:
                self._share.end()
                return found
        raise AssertionError("the last size of pages is tried or raised")

    async def watch(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout: float = WATCH_SECONDS,
        bookmarks: bool = True,
        initial_events: bool = False,
        heard: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        watch = self._client.watch(
            kind,
            namespace,
            resource_version=resource_version,
            labels=labels,
            fields=fields,
            timeout=min(timeout, self._limits.seconds) if initial_events else timeout,
            bookmarks=bookmarks,
            initial_events=initial_events,
            heard=heard,
        )
        initial = initial_events
        if initial:
            self._share.begin()
        try:
            async with aclosing(watch) as events:
                async for event in events:
                    initial = self._take(kind, event, initial=initial)
                    yield event
                    self._check_late(kind, initial=initial)
        except TooLarge as error:
            raise self._named(error) from None
        finally:
            self._share.begin()

    def _check_late(self, kind: Kind[T], *, initial: bool) -> None:
        """What comes too fast for too long is not what is there now: to read everything anew is quicker."""
        if not initial and (late := self._client.late) > self._limits.behind:
            text = f"{kind.name}: for {late:.0f} s more has changed than {shown(self._limits.rate)} a second, which are read"
            raise TooLarge(text, reason="TooFast")

    def _take(self, kind: Kind[T], event: WatchEvent[T], *, initial: bool) -> bool:
        """Weighs what comes. Whether there is more to come of what was there at the beginning."""
        if event.type == "BOOKMARK":
            if initial and event.ends_initial_events:
                self._share.end()
                return False
            return initial
        _slim(kind, event.object)
        obj = None if event.type == "DELETED" else event.object
        (self._share.streamed if initial else self._share.change)(key_of(event.object), obj)
        return initial

    async def latest(self, kind: Kind[Any], namespace: str = "", *, fields: str = "") -> str:
        try:
            return await self._client.latest(kind, namespace, fields=fields)
        except TooLarge as error:
            raise self._named(error) from None

    async def absent(self, kind: Kind[Any]) -> str:
        try:
            version = await self._client.absent(kind)
        except TooLarge as error:
            raise self._named(error) from None
        if version:
            self._share.clear()
        return version

    def _named(self, error: ApiError) -> TooLarge:
        begins = f"cluster {self._cluster}: "
        text = error.message if error.message.startswith(begins) else begins + error.message
        return TooLarge(text, reason=error.reason, retry_after=error.retry_after or self._limits.again)


def _slim(kind: Kind[T], obj: T) -> None:
    """Takes off what nobody looks at, from an object that nobody has seen yet."""
    kept, found = kind.kept_annotations, obj.metadata.annotations
    if kept is not None and not found.keys() <= set(kept):
        left = {name: found[name] for name in kept if name in found}
        msgspec.structs.force_setattr(obj.metadata, "annotations", left)
