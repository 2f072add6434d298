"""Changing an object on condition that it is still the one that was looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ullage.kube.client.interface import Patcher
from ullage.kube.kinds import Kind, Object, Value
from ullage.kube.objects import merge_patch

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


async def patch_status(client: Patcher, kind: Kind[T], obj: T, *, old: Value, new: Value) -> T | None:
    """Writes what differs between two statuses of an object that was looked at. None: nothing does."""
    change = merge_patch(old, new)
    return None if change is None else await patch_seen(client, kind, obj, {"status": change}, subresource="status")
