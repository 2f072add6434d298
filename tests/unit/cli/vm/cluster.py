"""A cluster in memory with VMs, where KubeVirt serves its subresources or not, and somebody who does what is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tests.unit.cli.snapshot.cluster import Json
from tests.unit.cli.volume.cluster import VolumeCluster
from tests.unit.snapshots.api.objects import patched
from ullage.engines.api import VOLUMES
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.kinds import Kind
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.restores import VM_RESTORES

NO_SUCH_API = "the server could not find the requested resource"


class VmCluster(VolumeCluster):
    """`served`: KubeVirt answers for itself; `answers` is asked what to each PUT. `conflicts`: so many writes come too late."""

    def __init__(self, *absent: Kind[Any], served: bool = False) -> None:
        super().__init__(*absent)
        self.is_served = served
        self.put_to: list[tuple[str, Json]] = []
        self.answers: Callable[[str], None] = lambda path: None
        self.conflicts = 0
        self.posted: list[tuple[Json, bool]] = []  # what, dry run
        self.refuse: Callable[[Json], None] = lambda given: None
        self.written: list[tuple[str, str, Json, bool]] = []  # kind and subresource, name, what, dry run
        self.react: Callable[[Json], None] = lambda merge: None  # what a controller makes of a write

    def machine(self, name: str = "db", *claims: str, strategy: str = "Always", **status: Any) -> None:
        volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
        spec = {"runStrategy": strategy, "template": {"spec": {"volumes": volumes}}}
        self.put(VIRTUAL_MACHINES, {"metadata": {"name": name, "resourceVersion": "7"}, "spec": spec, "status": status})

    def instance(self, name: str = "db", phase: str = "Running", *, uid: str = "uid-instance", **status: Any) -> None:
        meta = {"name": name, "uid": uid, "resourceVersion": "8"}
        self.put(INSTANCES, {"metadata": meta, "spec": {}, "status": {"phase": phase, **status}})

    async def request(self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: bytes = b"{}") -> bytes:
        if method == "POST":
            return self._post(json.loads(body), dry="dryRun" in (query or {}))
        if not self.is_served:
            raise NotFound(NO_SUCH_API, code=404)
        if method == "PUT":
            self.put_to.append((path, json.loads(body)))
            self.answers(path)
        return b""

    def _post(self, given: Json, *, dry: bool) -> bytes:
        kind = next(one for one in (VM_BACKUPS, VM_RESTORES) if one.kind == given["kind"])
        self.refuse(given)
        self.posted.append((given, dry))
        return json.dumps(given if dry else self.put(kind, given, namespace=given["metadata"]["namespace"])).encode()

    async def patch(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        subresource: str = "",
        dry_run: bool = False,
        uid: str = "",
        resource_version: str = "",
        **_: Any,
    ) -> Any:
        if kind is VOLUMES:
            return await super().patch(kind, name, namespace, merge=merge, uid=uid)
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict(f"{kind.name} {name}: somebody else wrote first", code=409)
        found = self.objects[kind.name, namespace, name]
        meta = found["metadata"]
        assert (uid, resource_version) == (meta["uid"], meta["resourceVersion"])
        change = dict(merge or {})
        self.written.append((f"{kind.plural}{'/' * bool(subresource)}{subresource}", name, change, dry_run))
        if not dry_run:
            self.objects[kind.name, namespace, name] = patched(found, change)
            self.react(change)
        return msgspec.convert(self.objects[kind.name, namespace, name], kind.type)
