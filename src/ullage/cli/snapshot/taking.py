"""A snapshot that is to be taken: the object to create, and what can be told of it beforehand.

The controller makes the same checks with the same functions. Here they are made as the user, who may not be allowed to look at
everything: what could not be checked is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ullage.cli.common.session import Dialect, readable
from ullage.cli.common.text import plain, size
from ullage.cli.snapshot.progress import PASSING
from ullage.kube.builtin import core, storage
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden
from ullage.quantity import Quantity, QuantityError
from ullage.snapshots.model import Problem, Snapshot, SnapshotClass
from ullage.snapshots.source_volume import ClaimContext, SourceVolume, find_class, find_source_volume

_KEPT: Final = {
    "Delete": "Delete: its data goes when the snapshot is deleted",
    "Retain": "Retain: its data stays when the snapshot is deleted",
}


def new_snapshot(dialect: Dialect, name: str, namespace: str, *, claim: str, class_name: str | None = None) -> Any:
    """The VolumeSnapshot of an API, typed as that API's own."""
    if dialect.name == "ga":
        spec: dict[str, Any] = {"source": {"persistentVolumeClaimName": claim}}
        field = "volumeSnapshotClassName"
    else:
        spec, field = {"persistentVolumeClaimName": claim}, "storageClassName"
    if class_name:
        spec[field] = class_name
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace}, "spec": spec}, dialect.snapshots.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a user could see of what a snapshot leads to."""

    context: ClaimContext = field(default_factory=ClaimContext)
    classes: Sequence[SnapshotClass] = ()
    hidden: Sequence[str] = ()  # what the user may not read


@dataclass(frozen=True, slots=True)
class Outlook:
    """What would come of it. `problem`: nothing, before something is mended."""

    lines: Sequence[str]
    problem: Problem | None = None


async def look_around(client: Client, dialect: Dialect, snapshot: Snapshot) -> Seen:
    hidden: list[str] = []

    async def see(what: str, asked: Any) -> Any:
        found = await readable(asked)
        if isinstance(found, Forbidden):
            hidden.append(what)
            return None
        return found

    claim = await see("claims", client.find(core.CLAIMS, snapshot.claim, snapshot.meta.namespace))
    volume = storage_class = None
    if claim is not None and claim.spec.volume_name:
        volume = await see(f"volume {claim.spec.volume_name}", client.find(core.PERSISTENT_VOLUMES, claim.spec.volume_name))
    if claim is not None and claim.spec.storage_class_name:
        name = claim.spec.storage_class_name
        storage_class = await see(f"StorageClass {name}", client.find(storage.STORAGE_CLASSES, name))
    listing = await see(dialect.classes.plural, client.list(dialect.classes))
    classes = [dialect.read_class(one) for one in listing.items] if listing is not None else []
    context = ClaimContext(claim=claim, volume=volume, storage_class=storage_class)
    return Seen(context=context, classes=classes, hidden=hidden)


def outlook(dialect: Dialect, snapshot: Snapshot, seen: Seen) -> Outlook:
    """As far as what was seen goes: what may not be read is no problem, but leaves the question open."""
    lines = [_claim_line(snapshot, seen.context)]
    source = find_source_volume(snapshot, seen.context)
    if isinstance(source, Problem):
        if seen.hidden and source.reason in ("ClaimNotFound", "VolumeNotFound"):
            return Outlook([*lines, *_unchecked(seen)])
        if source.reason in PASSING:
            return Outlook([*lines, f"waits: {plain(source.message)}"])
        return Outlook(lines, source)
    lines.append(f"driver {source.driver}{f', on node {source.volume.node}' if source.volume.node else ''}")
    if dialect.classes.plural in seen.hidden:
        return Outlook([*lines, *_unchecked(seen)])
    found = _class(dialect, snapshot, source, seen)
    if isinstance(found, Problem):
        return Outlook(lines, found)
    return Outlook([*lines, f"class {found.name} ({_KEPT[found.policy]})", *_unchecked(seen)])


def _class(dialect: Dialect, snapshot: Snapshot, source: SourceVolume, seen: Seen) -> SnapshotClass | Problem:
    return find_class(snapshot, source, context=seen.context, classes=seen.classes, defaults=dialect.defaults)


def _claim_line(snapshot: Snapshot, context: ClaimContext) -> str:
    text = f"claim {snapshot.meta.namespace}/{snapshot.claim}"
    if context.claim is None:
        return text
    volume = context.claim.spec.volume_name
    return f"{text}, {size(requested(context.claim))}{f', volume {volume}' if volume else ''}"


def requested(claim: core.PersistentVolumeClaim) -> int | None:
    """Bytes; None where the claim does not say, or not readably."""
    try:
        return Quantity.parse(str(claim.spec.resources.requests.get("storage", ""))).value()
    except QuantityError:
        return None


def _unchecked(seen: Seen) -> list[str]:
    return [f"not checked: you may not read {', '.join(seen.hidden)}"] if seen.hidden else []
