"""What a cache needs of a client, apart from how it is done: tests hand in servers that misbehave on purpose."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ullage.kube.client.codec import WatchEvent
from ullage.kube.kinds import Kind, Object

T = TypeVar("T", bound=Object)
Each = Callable[[T], object]

PAGE = 500
WATCH_SECONDS = 300.0


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """All objects that were asked for, as they were at `resource_version`: a watch can go on from there."""

    items: list[T]
    resource_version: str


class Reader(Protocol):
    """The reading half of `Client`."""

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
    ) -> Listing[T]: ...

    def watch(
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
    ) -> AsyncIterator[WatchEvent[T]]: ...

    async def latest(self, kind: Kind[Any], namespace: str = "", *, fields: str = "") -> str:
        """The version that the server itself has reached."""
        ...

    async def absent(self, kind: Kind[Any]) -> str:
        """The version at which it was proven that there is no such kind; empty where there is one, or may be."""
        ...
