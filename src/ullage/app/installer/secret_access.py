"""Rights on Secrets, kept in step with a cluster's classes: a role in each namespace that a class names, and none elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ullage.app.installer.installer import Installer
from ullage.app.installer.manifests import SECRETS_ROLE, secret_roles
from ullage.app.installer.outcomes import Outcome, Report
from ullage.kube.builtin.core import NAMESPACES, PERSISTENT_VOLUMES, PersistentVolume
from ullage.kube.builtin.rbac import ROLE_BINDINGS, ROLES
from ullage.kube.builtin.storage import STORAGE_CLASSES, StorageClass
from ullage.kube.client.client import Client
from ullage.kube.crds.definitions import MANAGED_BY, OURS
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.snapshots import restored_volume
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.class_parameters import PROVISIONER, SNAPSHOT_ROLES, named_secret, varies
from ullage.snapshots.model import Problem, Record, Ref, SnapshotClass

# Which Secrets may be read: those that classes name, and those that were written down for deletions to come. Who
# installs gives rights to these and no others. A class whose namespace of Secrets depends on the request
# (`${pvc.namespace}`) names all of them, which has to be asked for.


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


ASK = "install with --all-secrets, or name the namespace in the class"


class SecretAccess:
    def __init__(self, client: Client, *, dry_run: bool = False) -> None:
        self._client = client
        self._dry_run = dry_run

    async def keep(self, *, tell: Report, drivers: frozenset[str] | None = None, all_secrets: bool = False) -> list[Outcome]:
        """What a role cannot give is told. With `all_secrets` the cluster role has it all, and these roles go."""
        found = NamedSecrets() if all_secrets else named_secrets(await read_naming(self._client), drivers=drivers)
        outcomes = [
            Outcome("left alone", "secrets", "", f"{one} takes its Secret from a namespace that each request chooses; {ASK}")
            for one in found.templates
        ]
        there = {name for name in found.by_namespace if await self._client.find(NAMESPACES, name) is not None}
        outcomes += [
            Outcome("absent", "namespace", name, "a class names Secrets in it; install again when it is there")
            for name in sorted(found.by_namespace.keys() - there)
        ]
        for outcome in outcomes:
            tell(outcome)
        wanted = secret_roles({name: names for name, names in found.by_namespace.items() if name in there})
        outcomes += await Installer(self._client, dry_run=self._dry_run).install(wanted, tell=tell)
        return outcomes + await self._remove_others(there, tell)

    async def _remove_others(self, kept: set[str], tell: Report) -> list[Outcome]:
        outcomes = []
        for kind in (ROLE_BINDINGS, ROLES):
            for one in (await self._client.list(kind, labels=f"{MANAGED_BY}={OURS}")).items:
                meta = one.metadata
                if meta.name != SECRETS_ROLE or meta.namespace in kept:
                    continue
                await self._client.delete(kind, meta.name, meta.namespace, uid=meta.uid, dry_run=self._dry_run)
                why = "no class names a Secret there"
                outcomes.append(Outcome("deleted", kind.kind.lower(), f"{meta.namespace}/{meta.name}", why))
                tell(outcomes[-1])
        return outcomes
