"""What a cache reads from, as a test tells it to: a script for each list and watch. It speaks Python, not HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage.kube.client.client import Listing, WatchEvent
from ullage.kube.kinds import Kind, Meta, Object

THINGS = Kind("test.ullage.io", "v1", "Thing", "things", Object)
INITIAL_END = {"k8s.io/initial-events-end": "true"}
HANG = "hang"


def thing(name: str, version: int, *, uid: str = "", **labels: str) -> Object:
    return Object(
        metadata=Meta(name=name, namespace="n", uid=uid or f"uid-{name}", resource_version=str(version), labels=labels)
    )


def added(obj: Object) -> WatchEvent[Any]:
    return WatchEvent("ADDED", obj)


def modified(obj: Object) -> WatchEvent[Any]:
    return WatchEvent("MODIFIED", obj)


def deleted(obj: Object) -> WatchEvent[Any]:
    return WatchEvent("DELETED", obj)


def bookmark(version: int) -> WatchEvent[Any]:
    return WatchEvent("BOOKMARK", Object(metadata=Meta(resource_version=str(version))))


def initial_end(version: int) -> WatchEvent[Any]:
    return WatchEvent("BOOKMARK", Object(metadata=Meta(resource_version=str(version), annotations=INITIAL_END)))


@dataclass(slots=True)
class Watch:
    """One watch: what it says, then how it ends: with an error, by itself (None), or not at all (HANG)."""

    events: Sequence[WatchEvent[Any]] = ()
    end: BaseException | str | None = None
    pause: float = 0.0  # before each event, in which a byte of it comes every `byte` seconds
    byte: float = 0.0


@dataclass(slots=True)
class ScriptedReader:
    """Answers from its scripts, one entry after the other; a watch beyond them says nothing and never ends."""

    watches: list[Watch] = field(default_factory=list)
    lists: list[Listing[Any] | Exception] = field(default_factory=list)
    latests: list[str] = field(default_factory=list)  # what `latest` answers; far ahead beyond them
    absences: list[str | Exception] = field(default_factory=list)  # what `absent` answers
    asked: list[str] = field(default_factory=list)
    selected: list[str] = field(default_factory=list)  # what `latest` was asked about
    idle: asyncio.Event = field(default_factory=asyncio.Event)  # a watch that never ends has said all it had to

    async def list(self, kind: Kind[Any], namespace: str = "", *, each: Callable[[Any], object] | None = None, **_: Any) -> Any:
        self.asked.append("list")
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        for obj in answer.items:
            if each is not None:
                each(obj)
        return answer

    async def watch(
        self,
        kind: Kind[Any],
        namespace: str = "",
        *,
        resource_version: str,
        timeout: float = 300.0,
        initial_events: bool = False,
        heard: Callable[[], None] | None = None,
        **_: Any,
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        self.asked.append("stream" if initial_events else f"watch {resource_version}")
        script = self.watches.pop(0) if self.watches else Watch(end=HANG)
        loop = asyncio.get_running_loop()
        over = loop.time() + timeout
        for event in script.events:
            comes = loop.time() + script.pause
            while script.byte and heard and loop.time() + script.byte < comes:
                await asyncio.sleep(script.byte)
                heard()
            if script.pause:
                await asyncio.sleep(comes - loop.time())
            if loop.time() > over:
                return
            yield event
        if isinstance(script.end, BaseException):
            raise script.end
        if script.end == HANG:
            self.idle.set()
            await asyncio.Event().wait()

    async def latest(self, kind: Kind[Any], namespace: str = "", *, fields: str = "") -> str:
        self.selected.append(fields)
        return self.latests.pop(0) if self.latests else "999999"

    async def absent(self, kind: Kind[Any]) -> str:
        self.asked.append("absent")
        answer = self.absences.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer
