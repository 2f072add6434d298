"""What others need of a `Client`, in small parts: each asks for no more than it calls, and a test gives it no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from ullage.kube.kinds import Kind, Object

T = TypeVar("T", bound=Object)


class Finder(Protocol):
    """Reads one object, if it is there."""

    async def find(self, kind: Kind[T], name: str, namespace: str = "") -> T | None: ...


class Patcher(Protocol):
    """Changes an object, on condition that it is the one with this uid and version."""

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        subresource: str = "",
        uid: str = "",
        resource_version: str = "",
    ) -> T: ...


class ObjectClient(Finder, Patcher, Protocol):
    """Reads, creates, changes and deletes single objects."""

    async def create(self, kind: Kind[T], obj: T) -> T: ...

    async def delete(
        self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "", resource_version: str = ""
    ) -> None: ...
