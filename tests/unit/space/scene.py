"""A namespace with claims, volumes, engines and virtual machines on the simulated API, and requests that pass through the hooks
as an API server has them pass: mutating, a uid, validating, stored."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import jsonpatch
import msgspec

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.ledger.simulated import Server
from tests.unit.ledger.slices import running, wired
from tests.unit.vms.builders import claim_volume, machine
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, Engine, EngineSpec, EngineStatus, SnapshotInfo
from ullage.engines.chain import HEAD
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind, Meta
from ullage.kube.review import Decision, GroupVersionKind, GroupVersionResource, Hook, Request, Review, UserInfo
from ullage.kube.slices import Slice
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger, LedgerSpec
from ullage.ledger.charging.stamps import STAMP
from ullage.ledger.slice import LEDGER
from ullage.snapshots.model import Dialect
from ullage.space.slice import space
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import VIRTUAL_MACHINES
from ullage.vms.settings import Mode, Settings

Json = dict[str, Any]
TEAM = "team"
PERSON, OURS = "jane", "system:serviceaccount:ullage-system:controller"
LONGHORN_USER = "system:serviceaccount:longhorn-system:longhorn-service-account"
ENGINE_NS = "longhorn-system"
MIB = 1024**2


def made(kind: Kind[Any], body: Json) -> Any:
    return msgspec.convert(body, kind.type)


class Scene:
    def __init__(self, *, backups: Mode = "manage") -> None:
        self.server = Server()
        self._slices: tuple[Slice, ...] = (space(Settings(backups=backups)),)
        self._hooks: list[Hook] = []
        self._bodies: dict[tuple[str, Key], Json] = {}
        self._uids = itertools.count(1)

    # --- what there is ---

    def limits(self, namespace: str = TEAM, *, vms: Mapping[str, int] | None = None, **limits: int) -> None:
        """The namespace itself is `all`; virtual machines go by their names."""
        cells = {
            "snapshots/namespace" if name == "all" else f"snapshots/vm/{name}": {"storage": str(amount)}
            for name, amount in {**limits, **(vms or {})}.items()
        }
        self.server.put(
            LEDGERS, Ledger(metadata=Meta(name=f"ns-{namespace}", namespace=NAMESPACE), spec=LedgerSpec(limits=cells))
        )

    def claim(
        self,
        name: str,
        *,
        namespace: str = TEAM,
        head: int | None = None,
        used: str = "",
        capacity: str = "1Mi",
        volume: str = "",
        bound: bool = True,
        driver: str = "driver.longhorn.io",
    ) -> None:
        """A claim with its PersistentVolume and, where a head is given, its engine."""
        volume = volume or f"pv-{name}"
        spec = {"volumeName": volume, "resources": {"requests": {"storage": capacity}}}
        meta = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
        status = {"phase": "Bound" if bound else "Pending"}
        self.server.put(CLAIMS, msgspec.convert({"metadata": meta, "spec": spec, "status": status}, PersistentVolumeClaim))
        if not bound:
            return
        ref = {"namespace": namespace, "name": name, "uid": meta["uid"]}
        body = {
            "metadata": {"name": volume, "uid": f"uid-{volume}", "annotations": {"ullage.io/used": used} if used else {}},
            "spec": {"capacity": {"storage": capacity}, "claimRef": ref, "csi": {"driver": driver, "volumeHandle": volume}},
        }
        self.server.put(PERSISTENT_VOLUMES, msgspec.convert(body, PersistentVolume))
        if head is not None:
            self.engine(volume, head)

    def engine(
        self, volume: str, head: int, *, name: str = "", active: bool = True, entries: Mapping[str, int] | None = None
    ) -> None:
        shown = {key: SnapshotInfo(name=key, size=str(size)) for key, size in {HEAD: head, **(entries or {})}.items()}
        meta = Meta(name=name or f"{volume}-e-0", namespace=ENGINE_NS, uid=f"uid-{name or volume}")
        spec, status = EngineSpec(volume_name=volume, active=active), EngineStatus(snapshots=shown)
        self.server.put(ENGINES, Engine(metadata=meta, spec=spec, status=status))

    def vm(self, name: str, *claims: str) -> None:
        self.server.put(VIRTUAL_MACHINES, machine(*(claim_volume(one) for one in claims), name=name))

    # --- requests ---

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        wiring = wired(self.server)
        self._hooks = wiring.hooks((LEDGER, *self._slices))
        async with running(wiring):
            yield

    async def submit(self, kind: Kind[Any], body: Json, *, user: str = PERSON, behind: Json | None = None) -> Decision:
        """Creates or replaces an object. `behind`: annotations that another webhook writes behind ours."""
        new = deepcopy(body)
        meta = new.setdefault("metadata", {})
        if kind.namespaced:
            meta.setdefault("namespace", TEAM)
        key = Key(meta.get("namespace", ""), meta["name"])
        old = self._bodies.get((kind.name, key))
        if old is not None:
            meta.update({name: old["metadata"][name] for name in ("uid", "resourceVersion")})
            new["status"] = deepcopy(old.get("status", {}))
        for hook in self._asked(kind, "mutate"):
            decided = await hook.answer(self._review(kind, new, old, user))
            if not decided.allowed:
                return decided
            new = jsonpatch.apply_patch(new, list(decided.patch))
        new["metadata"].setdefault("uid", f"00000000-{next(self._uids):04d}")
        new["metadata"].setdefault("annotations", {}).update(behind or {})
        for hook in self._asked(kind, "validate"):
            decided = await hook.answer(self._review(kind, new, old, user))
            if not decided.allowed:
                return decided
        self.store(kind, new)
        return Decision.allow()

    async def annotate(
        self, kind: Kind[Any], name: str, namespace: str = TEAM, *, user: str = PERSON, **changes: str | None
    ) -> Decision:
        """Changes annotations of `ullage.io`; None takes one off. Underscores stand for dashes."""
        body = deepcopy(self.body(kind, name, namespace))
        annotations = body["metadata"].setdefault("annotations", {})
        for key, value in changes.items():
            annotations.pop(full(key), None)
            if value is not None:
                annotations[full(key)] = value
        return await self.submit(kind, body, user=user)

    def store(self, kind: Kind[Any], body: Json) -> Json:
        """As it is, past the hooks."""
        stored = self.server.put(kind, made(kind, body))
        body["metadata"]["resourceVersion"] = stored.metadata.resource_version
        self._bodies[kind.name, Key(stored.metadata.namespace, stored.metadata.name)] = body
        return body

    def change(self, kind: Kind[Any], name: str, namespace: str = TEAM, **content: Any) -> None:
        """Past the hooks: a status, or metadata that the API server sets."""
        body = deepcopy(self.body(kind, name, namespace))
        body["metadata"].update(content.pop("metadata", {}))
        self.store(kind, {**body, **content})

    def remove(self, kind: Kind[Any], name: str, namespace: str = TEAM) -> None:
        key = Key(namespace if kind.namespaced else "", name)
        del self._bodies[kind.name, key]
        self.server.drop(kind, key)

    def body(self, kind: Kind[Any], name: str, namespace: str = TEAM) -> Json:
        return self._bodies[kind.name, Key(namespace if kind.namespaced else "", name)]

    def marks(self, kind: Kind[Any], name: str, namespace: str = TEAM) -> Mapping[str, str]:
        """The annotations that are ours, without their prefix."""
        found = self.body(kind, name, namespace)["metadata"].get("annotations", {})
        return {key.removeprefix("ullage.io/"): value for key, value in found.items() if key.startswith("ullage.io/")}

    def takes(self, kind: Kind[Any], name: str, namespace: str = TEAM) -> Any:
        """The stamp, as `{account: amount}` in plain numbers."""
        text = self.body(kind, name, namespace)["metadata"].get("annotations", {}).get(STAMP)
        if text is None:
            return None
        return {account.removeprefix("snapshots/"): one["storage"] for account, one in msgspec.json.decode(text).items()}

    def _asked(self, kind: Kind[Any], phase: str) -> list[Hook]:
        return [
            hook
            for hook in self._hooks
            if hook.phase == phase
            and any(kind.group in target.groups and kind.plural in target.resources for target in hook.targets)
        ]

    def _review(self, kind: Kind[Any], new: Json, old: Json | None, user: str) -> Review:
        return Review(
            Request(
                uid="review",
                operation="CREATE" if old is None else "UPDATE",
                kind=GroupVersionKind(group=kind.group, version=kind.version, kind=kind.kind),
                resource=GroupVersionResource(group=kind.group, version=kind.version, resource=kind.plural),
                namespace=new["metadata"].get("namespace", ""),
                name=new["metadata"]["name"],
                user_info=UserInfo(username=user),
                object=msgspec.Raw(msgspec.json.encode(new)),
                old_object=msgspec.Raw(b"null" if old is None else msgspec.json.encode(old)),
            )
        )


def full(key: str) -> str:
    return f"ullage.io/{key.replace('_', '-')}"


def snapshot_of(dialect: Dialect[Any, Any], name: str, claim: str, **annotations: str) -> Json:
    source = {"persistentVolumeClaimName": claim}
    spec = {"source": source} if dialect.name == "ga" else source
    return _body(dialect.snapshots, name, spec, annotations)


def import_of(dialect: Dialect[Any, Any], name: str, record: str) -> Json:
    spec = {"source": {"volumeSnapshotContentName": record}} if dialect.name == "ga" else {"snapshotDataName": record}
    return _body(dialect.snapshots, name, spec, {})


def backup_of(name: str, vm: str, **annotations: str) -> Json:
    source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": vm}
    return _body(VM_BACKUPS, name, {"source": source, "type": "backup"}, annotations)


def record_of(
    dialect: Dialect[Any, Any], uid: str, snapshot: str, *, volume: str = "pv-disk", cut: bool = False, **annotations: str
) -> Json:
    """The record of a snapshot on one of Longhorn's volumes."""
    ref = {"namespace": TEAM, "name": snapshot, "uid": uid}
    handle = f"snap://{volume}/snapshot-{uid}"
    spec: Json
    status: Json = {}
    if dialect.name == "ga":
        name = f"snapcontent-{uid}"
        source = {"volumeHandle": volume}
        spec = {"driver": "driver.longhorn.io", "deletionPolicy": "Delete", "source": source, "volumeSnapshotRef": ref}
        status = {"snapshotHandle": handle, "creationTime": 1} if cut else {}
    else:
        name = f"snapdata-{uid}"
        annotations = {"source_volume": volume, **annotations}
        source = {"driver": "driver.longhorn.io", "snapshotHandle": handle if cut else ""}
        spec = {"csiVolumeSnapshotSource": source, "volumeSnapshotRef": ref}
    return {**_body(dialect.records, name, spec, annotations), "status": status}


def engine_snapshot(name: str, volume: str = "pv-disk", *, namespace: str = ENGINE_NS, **spec: Any) -> Json:
    body = _body(ENGINE_SNAPSHOTS, name, {"volume": volume, **spec}, {})
    body["metadata"]["namespace"] = namespace
    return body


def _body(kind: Kind[Any], name: str, spec: Json, annotations: Mapping[str, str]) -> Json:
    meta = {"name": name, "annotations": {full(key): value for key, value in annotations.items()}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


def unsplit(message: str) -> str:
    """What is counted by now and what is still reserved differs with the moment; together they do not."""
    return re.sub(r"used [^,]*, reserved [^,]*", "…", message)


def simulated(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a test in virtual time; what it is given beside the scene is pytest's."""

    def wrapped(**given: Any) -> None:
        async def run() -> None:
            await test(Scene(), **given)  # backups are ours

        in_virtual_time(run())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    _, *others = inspect.signature(test).parameters.values()
    wrapped.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]  # what pytest reads
    return wrapped
