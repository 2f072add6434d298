"""Changing an object on condition that it is still the one that was looked at."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

from ullage.kube.client.interface import Patcher
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind, Object, Value
from ullage.kube.objects import merge_patch, with_finalizer, without_finalizer

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


async def hold(client: Patcher, kind: Kind[T], obj: T, finalizer: str) -> T:
    """The object with the finalizer: until that is taken off, it does not go. One that has it costs no write."""
    meta = with_finalizer(obj.metadata, finalizer)
    if meta is obj.metadata:
        return obj
    return await patch_seen(client, kind, obj, {"metadata": {"finalizers": list(meta.finalizers)}})


async def let_go(client: Patcher, kind: Kind[T], obj: T, finalizer: str) -> None:
    """Takes the finalizer off. That it is gone already is no error."""
    meta = without_finalizer(obj.metadata, finalizer)
    if meta is not obj.metadata:
        with suppress(NotFound):
            await patch_seen(client, kind, obj, {"metadata": {"finalizers": list(meta.finalizers)}})


async def annotate(client: Patcher, kind: Kind[T], obj: T, notes: Mapping[str, str | None]) -> T:
    """The object with these annotations; None takes one off. One that has them all costs no write."""
    changed = {key: value for key, value in notes.items() if obj.metadata.annotations.get(key) != value}
    return await patch_seen(client, kind, obj, {"metadata": {"annotations": changed}}) if changed else obj


async def patch_status(client: Patcher, kind: Kind[T], obj: T, *, old: Value, new: Value) -> T | None:
    """Writes what differs between two statuses of an object that was looked at. None: nothing does."""
    change = merge_patch(old, new)
    return None if change is None else await patch_seen(client, kind, obj, {"status": change}, subresource="status")
