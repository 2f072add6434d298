"""A seed in memory whose objects can be patched, and user clusters beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from tests.unit.ledger.simulated import Server, merged
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.kinds import Kind, Object


class SeedServer(Server):
    """What is patched is merged, on condition that it is what was looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.patched: list[tuple[str, Any]] = []  # the name of the object, and what was sent

    async def patch(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        subresource: str = "",
        uid: str = "",
        resource_version: str = "",
    ) -> Any:
        if not subresource:
            return await super().patch(kind, name, namespace, merge=merge or {})

        async def write() -> Any:
            live = self.get(kind, Key(namespace, name))
            if live is None:
                raise NotFound("it is gone", code=404)
            if (live.metadata.uid, live.metadata.resource_version) != (uid, resource_version):
                raise Conflict("it has changed", code=409)
            self.patched.append((name, merge))
            return self.put(kind, msgspec.convert(merged(msgspec.to_builtins(live), merge), kind.type))

        return await self._call(write)

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "") -> None:
        async def write() -> Any:
            live = self.get(kind, Key(namespace, name))
            if live is None:
                raise NotFound("it is gone", code=404)
            if uid and live.metadata.uid != uid:
                raise Conflict("it is another", code=409)
            self.drop(kind, Key(namespace, name))

        await self._call(write)


class UserCluster(Server):
    """A user cluster, as a client has it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@dataclass
class Told:
    """The Events that were recorded: reason and note."""

    events: list[tuple[str, str, str]] = field(default_factory=list)

    def record(self, kind: Kind[Any], obj: Object, reason: Reason, *, note: str) -> None:
        self.events.append((obj.metadata.name, reason.name, note))
