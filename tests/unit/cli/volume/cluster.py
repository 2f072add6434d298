"""A cluster in memory with volumes of engines, and somebody who attaches those that have a ticket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.unit.cli.snapshot.cluster import Cluster, Json
from tests.unit.snapshots.api.objects import patched
from ullage.engines.api import ENGINES, VOLUMES
from ullage.kube.builtin import core
from ullage.kube.kinds import Kind

NS = "longhorn-system"
MIB = 1 << 20


def entry(name: str, parent: str = "", *, size: int = MIB, **more: Any) -> tuple[str, Json]:
    body = {"name": name, "parent": parent, "size": str(size), "usercreated": True, "created": "2026-05-01T10:00:00Z"}
    return name, {**body, **more}


class VolumeCluster(Cluster):
    """`endpoint` is where engines are once they run; empty: nobody attaches. `drops`: tickets are not kept, as by Longhorn."""

    def __init__(self, *absent: Kind[Any]) -> None:
        super().__init__(*absent)
        self.endpoint = ""
        self.drops = False

    def volume(self, name: str, *entries: tuple[str, Json], claim: str = "", size: int = 8 * MIB, **status: Any) -> None:
        body: Json = {"metadata": {"name": name}, "spec": {"size": str(size)}, "status": {"state": "detached", **status}}
        self.put(VOLUMES, body, namespace=NS)
        self.engine(f"{name}-e-0", name, *entries)
        if claim:
            self.bind(claim, name)

    def engine(self, name: str, volume: str, *entries: tuple[str, Json], **status: Any) -> None:
        shown = {"currentState": "stopped", "snapshots": dict(entries), **status}
        self.put(ENGINES, {"metadata": {"name": name}, "spec": {"volumeName": volume}, "status": shown}, namespace=NS)

    def bind(self, claim: str, volume: str, *, driver: str = "driver.longhorn.io") -> None:
        namespace, _, name = claim.partition("/")
        self.put(core.CLAIMS, {"metadata": {"name": name}, "spec": {"volumeName": f"pv-{volume}"}}, namespace=namespace)
        source = {"csi": {"driver": driver, "volumeHandle": volume}} if driver else {"hostPath": {"path": "/x"}}
        spec = {"claimRef": {"namespace": namespace, "name": name}, **source}
        self.put(core.PERSISTENT_VOLUMES, {"metadata": {"name": f"pv-{volume}"}, "spec": spec})

    @property
    def tickets(self) -> Json:
        found: Json = {}
        for (kind, _, _), body in self.objects.items():
            if kind == VOLUMES.name:
                found |= body["spec"].get("attachmentTickets") or {}
        return found

    async def patch(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        uid: str = "",
        dry_run: bool = False,
    ) -> Any:
        assert not dry_run
        self._ask("patch", kind, name)
        place = (kind.name, namespace, name)
        assert self.objects[place]["metadata"]["uid"] == uid
        if not self.drops:
            self.objects[place] = patched(self.objects[place], dict(merge or {}))
        if self.endpoint:
            engine = (ENGINES.name, namespace, f"{name}-e-0")
            state = {"currentState": "running", "endpoint": self.endpoint} if self.tickets else {"currentState": "stopped"}
            self.objects[engine] = patched(self.objects[engine], {"status": state})
        return msgspec.convert(self.objects[place], kind.type)
