"""Changing an object on condition that it is still the one that was looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ullage.kube.client.interface import Patcher
from ullage.kube.kinds import Kind, Object

T = TypeVar("T", bound=Object)


async def patch_seen(client: Patcher, kind: Kind[T], obj: T, merge: Mapping[str, Any], *, subresource: str = "") -> T:
    """The object as it is then. A Conflict where it has changed meanwhile, or is another one of the name: look, and decide
    anew."""
    meta = obj.metadata
    return await client.patch(
        kind,
        meta.name,
        meta.namespace,
        merge=merge,
        subresource=subresource,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
