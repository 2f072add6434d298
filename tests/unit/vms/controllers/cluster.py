"""A small cluster for tests of backups and restores: an API in memory, and somebody who plays snapshotter and ledger."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

from tests.unit.snapshots.memory_api import Crash, Json, MemoryApi, Told
from tests.unit.vms.builders import NAMESPACE, body, claim_volume, machine_body
from ullage.clock import FakeClock
from ullage.errors import UllageError
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden
from ullage.kube.kinds import Kind
from ullage.ledger.charging.stamps import PLAN, STAMP
from ullage.ledger.refusals import NO_FIT
from ullage.snapshots.api.ga.types import CONTENTS, VOLUME_SNAPSHOTS
from ullage.snapshots.gate import written
from ullage.snapshots.lookup import VolumeLookup
from ullage.snapshots.model import CUT, ESTIMATE, GO
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.restores import VM_RESTORES
from ullage.vms.controllers.backup_take import BackupController
from ullage.vms.controllers.restore_perform import RestoreController
from ullage.vms.lookup import BY_CLAIM, BY_TARGET, MachineLookup, claim_keys

DRIVER = "csi.example.com"
GIB = 1 << 30
CUT_TIME = "2026-01-01T00:00:07Z"


def stamp(amount: int, *vms: str) -> str:
    cells = {"snapshots/namespace": amount, **{f"snapshots/vm/{vm}": amount for vm in vms}}
    return json.dumps({account: {"storage": str(count)} for account, count in cells.items()})


@dataclass
class Cluster:
    api: MemoryApi = field(default_factory=MemoryApi)
    told: Told = field(default_factory=Told)
    clock: FakeClock = field(default_factory=FakeClock)
    sizes: dict[str, int] = field(default_factory=dict)  # what a snapshot of a claim takes now
    broken: dict[str, str] = field(default_factory=dict)  # by claim: what the driver says
    breaks_when_told: dict[str, str] = field(default_factory=dict)  # the same, once it is to be cut
    limit: int | None = None
    no_vm_runs: str = ""  # why a webhook refuses VMs that are not halted
    hold_claims: bool = False  # nobody fills claims
    within: frozenset[str] = frozenset()
    cuts: list[str] = field(default_factory=list)  # the claims, as they were cut

    def claim(self, name: str, *, bound: bool = True, size: str = "1Gi") -> None:
        spec: Json = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": "fast",
        }
        if not bound:
            self.api.put(CLAIMS, body(CLAIMS, name, spec=spec, status={"phase": "Pending"}))
            return
        spec["volumeName"] = f"pv-{name}"
        status = {"phase": "Bound", "capacity": {"storage": size}}
        ref = {"namespace": NAMESPACE, "name": name, "uid": f"uid-{name}"}
        source = {"csi": {"driver": DRIVER, "volumeHandle": f"vol-{name}"}}
        volume = {"metadata": {"name": f"pv-{name}"}, "spec": {"claimRef": ref, **source}}
        self.api.put(PERSISTENT_VOLUMES, volume)
        self.api.put(CLAIMS, body(CLAIMS, name, spec=spec, status=status))

    def machine(self, *claims: str, name: str = "db", **content: Any) -> None:
        for claim in claims:
            if self.api.body(CLAIMS, claim, NAMESPACE) is None:
                self.claim(claim)
        self.api.put(VIRTUAL_MACHINES, machine_body(*map(claim_volume, claims), name=name, **content))

    def backup(self, name: str = "one", *, paid: dict[str, int] | None = None, **content: Any) -> None:
        annotations = {STAMP: stamp(sum(paid.values()), "db"), PLAN: json.dumps(paid)} if paid is not None else {}
        source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "db"}
        metadata = {"annotations": annotations, "generation": 1}
        self.api.put(VM_BACKUPS, body(VM_BACKUPS, name, metadata=metadata, spec={"source": source, **content}))

    def restore(self, name: str = "back", *, target: str = "copy", new: bool = True, **spec: Any) -> None:
        given = {"target": {"name": target}, "virtualMachineBackupName": "one", "newVM": new, **spec}
        metadata = {"generation": 1, "uid": f"{name}-uid", "creationTimestamp": "2026-01-01T00:01:00Z"}
        self.api.put(VM_RESTORES, body(VM_RESTORES, name, metadata=metadata, spec=given))

    # --- what is seen ---

    def status(self, name: str = "one", kind: Kind[Any] = VM_BACKUPS) -> Json:
        found = self.api.body(kind, name, NAMESPACE)
        assert found is not None
        return dict(found.get("status", {}))

    def condition(self, type: str, name: str = "one", kind: Kind[Any] = VM_BACKUPS) -> tuple[str, str, str]:
        (found,) = [one for one in self.status(name, kind)["conditions"] if one["type"] == type]
        return found["status"], found["reason"], found["message"]

    def snapshots(self) -> dict[str, Json]:
        return {one["metadata"]["name"]: one for one in self.api.bodies(VOLUME_SNAPSHOTS)}

    def members(self) -> dict[str, Json]:
        return {one["spec"]["source"]["persistentVolumeClaimName"]: one for one in self.snapshots().values()}

    # --- what others do ---

    def play(self) -> None:
        """One round of the snapshotter: it makes records and measures, and cuts those that were told to be."""
        for claim in self.api.bodies(CLAIMS):
            if claim["spec"].get("dataSource") and claim.get("status", {}).get("phase") != "Bound" and not self.hold_claims:
                status = {"phase": "Bound", "capacity": claim["spec"]["resources"]["requests"]}
                self.api.edit(CLAIMS, claim["metadata"]["name"], NAMESPACE, merge={"status": status})
        for snapshot in list(self.snapshots().values()):
            meta, claim = snapshot["metadata"], snapshot["spec"]["source"]["persistentVolumeClaimName"]
            if meta.get("deletionTimestamp"):
                continue
            told = meta.get("annotations", {}).get(CUT, "").startswith(GO)
            if problem := self.broken.get(claim) or (told and self.breaks_when_told.get(claim)):
                self._edit(meta, {"status": {"readyToUse": False, "error": {"message": problem}}})
                continue
            self._measure_or_cut(meta, claim, snapshot)

    def _measure_or_cut(self, meta: Json, claim: str, snapshot: Json) -> None:
        if snapshot.get("status", {}).get("readyToUse"):
            return
        record = f"snapcontent-{meta['uid']}"
        found = self.api.body(CONTENTS, record)
        size, known = self.sizes.get(claim, GIB), self._estimate(found)
        word = meta.get("annotations", {}).get(CUT, "")
        if known is not None and word == f"{GO}{known['at']}" and size <= known["bytes"]:
            self.cuts.append(claim)
            self._edit(meta, {"status": {"readyToUse": True, "creationTime": CUT_TIME}})
            return
        self.clock.advance(1)
        note = {ESTIMATE: written(size, self.clock.now(), group=True, by="measured")}
        if found is None:
            ref = {"namespace": NAMESPACE, "name": meta["name"], "uid": meta["uid"]}
            spec = {"volumeSnapshotRef": ref, "deletionPolicy": "Delete", "driver": DRIVER, "source": {"volumeHandle": claim}}
            self.api.put(CONTENTS, {"metadata": {"name": record, "annotations": note}, "spec": spec})
        elif known is None or word != f"{GO}{known['at']}" or size > known["bytes"]:
            self.api.edit(CONTENTS, record, merge={"metadata": {"annotations": note}})

    @staticmethod
    def _estimate(record: Json | None) -> Json | None:
        text = record["metadata"].get("annotations", {}).get(ESTIMATE) if record else None
        return json.loads(text) if text else None

    def _edit(self, meta: Json, merge: Json) -> None:
        self.api.edit(VOLUME_SNAPSHOTS, meta["name"], NAMESPACE, merge=merge)

    def settle_payments(self) -> None:
        """As the controller that follows what things take: a backup that goes, and has no members left, takes nothing."""
        for one in self.api.bodies(VM_BACKUPS):
            meta = one["metadata"]
            if meta.get("deletionTimestamp") and STAMP in meta.get("annotations", {}) and not self.snapshots():
                self.api.edit(VM_BACKUPS, meta["name"], NAMESPACE, merge={"metadata": {"annotations": {STAMP: "{}"}}})

    # --- a process of ours ---

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[Process]:
        caches: dict[Any, Cache[Any]] = {
            kind: Cache(self.api, kind)
            for kind in (
                VM_BACKUPS,
                VM_RESTORES,
                VIRTUAL_MACHINES,
                INSTANCES,
                VOLUME_SNAPSHOTS,
                CONTENTS,
                CLAIMS,
                PERSISTENT_VOLUMES,
                STORAGE_CLASSES,
            )
        }
        running = [asyncio.create_task(cache.run()) for cache in caches.values()]
        caches[VIRTUAL_MACHINES].index(BY_CLAIM, claim_keys)
        caches[VM_RESTORES].index(BY_TARGET, lambda one: (str(Key(one.metadata.namespace, one.spec.target.name)),))
        try:
            yield Process(self, caches)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def live(self, *, blows_at: int = -1, rounds: int = 12) -> bool:
        """One process, and the snapshotter beside it, until nothing moves any more, or its fuse blows; whether it blew."""
        self.api.fuse.blows_at, self.api.fuse.passed = blows_at, 0
        async with self.process() as process:
            try:
                for _ in range(rounds):
                    before = self.api.version
                    await process.look()
                    self.play()
                    self.settle_payments()
                    if self.api.version == before:
                        break
            except Crash:
                return True
            finally:
                self.api.fuse.blows_at = -1
        return False


@dataclass
class Process:
    """A controller that has just started: it knows what the API has, and nothing else."""

    cluster: Cluster
    caches: dict[Any, Cache[Any]]

    def __post_init__(self) -> None:
        cluster, caches = self.cluster, self.caches
        client = cast(Client, LimitedApi(cluster))
        machines = MachineLookup(caches[VIRTUAL_MACHINES], caches[INSTANCES])
        volumes = VolumeLookup(caches[CLAIMS], caches[PERSISTENT_VOLUMES], caches[STORAGE_CLASSES])
        self.backups = BackupController(
            client,
            caches[VM_BACKUPS],
            machines,
            volumes=volumes,
            snapshots=caches[VOLUME_SNAPSHOTS],
            records=caches[CONTENTS],
            recorder=cluster.told,
            clock=cluster.clock,
        )

        self.restores = RestoreController(
            client,
            caches[VM_RESTORES],
            machines,
            volumes=volumes,
            within=cluster.within,
            recorder=cluster.told,
            clock=cluster.clock,
        )

    async def current(self) -> None:
        await asyncio.gather(*(cache.reached(self.cluster.api.version) for cache in self.caches.values()))

    async def look(self) -> None:
        """Every backup and every restore, once, from caches that are up to date."""
        for kind, reconcile in ((VM_BACKUPS, self.backups.reconcile), (VM_RESTORES, self.restores.reconcile)):
            for one in self.cluster.api.bodies(kind):
                await self.current()
                with contextlib.suppress(UllageError):
                    await reconcile(Key(NAMESPACE, one["metadata"]["name"]))
        await self.current()


class LimitedApi:
    """The API, with a ledger in front of it that refuses stamps beyond a limit."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster.api, name)

    async def create(self, kind: Any, obj: Any) -> Any:
        if kind.plural == VIRTUAL_MACHINES.plural and obj.spec.get("runStrategy") != "Halted" and self._cluster.no_vm_runs:
            raise Forbidden(self._cluster.no_vm_runs, code=403)
        return await self._cluster.api.create(kind, obj)

    async def patch(self, kind: Any, name: str, namespace: str = "", **wanted: Any) -> Any:
        text = wanted.get("merge", {}).get("metadata", {}).get("annotations", {}).get(STAMP)
        limit = self._cluster.limit
        if kind is VM_BACKUPS and text and limit is not None:
            asked = int(json.loads(text)["snapshots/namespace"]["storage"].replace("Gi", "")) * (GIB if "Gi" in text else 1)
            if asked > limit:
                raise Forbidden(f"admission webhook denied the request: {NO_FIT}asked {asked}, limit {limit}", code=403)
        return await self._cluster.api.patch(kind, name, namespace, **wanted)
