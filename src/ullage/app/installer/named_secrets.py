"""Which Secrets may be read: those that classes name, and those that were written down for deletions to come.

Who installs gives rights to these and no others. A class whose namespace of Secrets depends on the request (`${pvc.namespace}`)
names all of them, which has to be asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ullage.kube.builtin.core import PERSISTENT_VOLUMES, PersistentVolume
from ullage.kube.builtin.storage import STORAGE_CLASSES, StorageClass
from ullage.kube.client.client import Client
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.snapshots import restored_volume
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.class_parameters import PROVISIONER, SNAPSHOT_ROLES, named_secret, varies
from ullage.snapshots.model import Problem, Record, Ref, SnapshotClass


@dataclass(frozen=True, slots=True)
class NamedSecrets:
    """By namespace the names, or None for all that are there; and the classes that name a namespace by a template."""

    by_namespace: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    templates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamingObjects:
    """What names Secrets, as it was read."""

    storage_classes: Iterable[StorageClass] = ()
    classes: Iterable[SnapshotClass] = ()
    records: Iterable[Record] = ()
    volumes: Iterable[PersistentVolume] = ()


def named_secrets(found: NamingObjects, *, drivers: frozenset[str] | None = None) -> NamedSecrets:
    """Pure. Of all drivers, or of some."""

    def ours(driver: str) -> bool:
        return drivers is None or driver in drivers

    by_class = [
        (f"StorageClass {one.metadata.name}", named_secret(one.parameters, PROVISIONER))
        for one in found.storage_classes
        if ours(one.provisioner)
    ]
    by_class += [
        (f"class {one.name}", named_secret(one.parameters, role))
        for role in SNAPSHOT_ROLES
        for one in found.classes
        if ours(one.driver) and not isinstance(one.parameters, Problem)
    ]
    stored = [one.secret for one in found.records if ours(one.driver)]
    stored += [restored_volume.secret_of(one) for one in found.volumes if restored_volume.is_ours(one)]
    refs = [ref for _, ref in by_class if ref is not None and not varies(ref.namespace)] + [ref for ref in stored if ref]
    templates = {shown for shown, ref in by_class if ref is not None and varies(ref.namespace)}
    return NamedSecrets(_gathered(refs), tuple(sorted(templates)))


def _gathered(refs: Iterable[Ref]) -> dict[str, frozenset[str] | None]:
    found: dict[str, frozenset[str] | None] = {}
    for ref in sorted(refs, key=lambda one: (one.namespace, one.name)):
        names = found.get(ref.namespace, frozenset())
        found[ref.namespace] = None if names is None or varies(ref.name) else names | {ref.name}
    return found


async def read_naming(client: Client) -> NamingObjects:
    """As an administrator. A kind that is not there yet has no objects."""

    async def all_of(kind: Kind[Any]) -> list[Any]:
        try:
            return list((await client.list(kind)).items)
        except NotFound:
            return []

    storage_classes = await all_of(STORAGE_CLASSES)
    classes = [GA.read_class(one) for one in await all_of(GA.classes)]
    classes += [PROTOTYPE.read_class(one) for one in storage_classes]
    records = [GA.read_record(one) for one in await all_of(GA.records)]
    records += [PROTOTYPE.read_record(one) for one in await all_of(PROTOTYPE.records)]
    return NamingObjects(
        storage_classes=storage_classes, classes=classes, records=records, volumes=await all_of(PERSISTENT_VOLUMES)
    )
