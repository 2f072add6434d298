"""VolumeSnapshots of volumes that engines serve: all controllers of both slices, an API in memory, engines without data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import msgspec

from tests.unit.engines.world import NS, World
from tests.unit.snapshots.memory_api import Json
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, KINDS, VOLUMES
from ullage.engines.handles import DRIVER
from ullage.engines.holds import Hold, holds_of
from ullage.kube.builtin import core, storage
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller
from ullage.kube.slices import Wiring
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.backends.longhorn.backend import LonghornBackend
from ullage.snapshots.lookup import kinds_of
from ullage.snapshots.model import Dialect
from ullage.snapshots.settings import Settings
from ullage.snapshots.slice import DIALECTS, Options, make_controllers

DELETED = "2026-01-01T00:05:00Z"


@dataclass
class EngineCluster(World):
    """A volume `vol`, its PersistentVolume `vol` and claim `team/db`. `manages`: the engines are ours, so holds are known."""

    dialect: Dialect[Any, Any] = GA
    manages: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.watches = (*KINDS, *kinds_of(DIALECTS))
        self.api.put(storage.STORAGE_CLASSES, {"metadata": {"name": "longhorn"}, "provisioner": DRIVER})
        self.snapshot_class()
        ref = {"namespace": "team", "name": "db", "uid": "uid-db"}
        spec = {"claimRef": ref, "csi": {"driver": DRIVER, "volumeHandle": "vol"}, "storageClassName": "longhorn"}
        self.api.put(core.PERSISTENT_VOLUMES, {"metadata": {"name": "vol"}, "spec": spec, "status": {"phase": "Bound"}})
        claim = {"metadata": {"name": "db", "namespace": "team"}, "spec": {"volumeName": "vol", "storageClassName": "longhorn"}}
        self.api.put(core.CLAIMS, {**claim, "status": {"phase": "Bound"}})
        self.volume()

    def snapshot_class(self, policy: str = "Delete") -> None:
        default = {"snapshot.storage.kubernetes.io/is-default-class": "true"}
        body = {"metadata": {"name": "daily", "annotations": default}, "driver": DRIVER, "deletionPolicy": policy}
        self.api.put(GA.classes, body)

    def take(self, name: str = "nightly") -> None:
        source: Json = {"persistentVolumeClaimName": "db"}
        meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        spec = {"source": source} if self.dialect.name == "ga" else source
        self.api.put(self.dialect.snapshots, {"metadata": meta, "spec": spec})

    def drop(self, name: str = "nightly") -> None:
        self.api.remove(self.dialect.snapshots, name, "team")

    # --- what is seen ---

    def found(self, name: str = "nightly") -> Any:
        body = self.api.body(self.dialect.snapshots, name, "team")
        return None if body is None else self.dialect.read_snapshot(_decoded(self.dialect.snapshots, body))

    def is_taken(self, name: str = "nightly") -> bool:
        found = self.found(name)
        return found is not None and found.state.ready

    def record(self, name: str = "nightly") -> Any:
        found = next((one for one in self.api.bodies(self.dialect.records) if one["metadata"]["name"].endswith(name)), None)
        return None if found is None else self.dialect.read_record(_decoded(self.dialect.records, found))

    def holds_on(self, kind: Any, name: str) -> tuple[Hold, ...]:
        body = self.body(kind, name)
        return () if body is None else holds_of(_decoded(kind, body).metadata)

    def holders(self) -> tuple[list[str], list[str]]:
        """Of the Snapshot of `nightly`, and of the Volume."""
        snapshot, volume = self.holds_on(ENGINE_SNAPSHOTS, "snapshot-uid-nightly"), self.holds_on(VOLUMES, "vol")
        return [str(one) for one in snapshot], [str(one) for one in volume]

    def forget(self, name: str = "snapshot-uid-nightly") -> None:
        """Takes a Snapshot away, whoever holds it; from its engine too, which would show it again."""
        self.engines["vol"].empty()
        self.api.edit(ENGINES, "vol-e-0", NS, merge={"status": {"snapshots": None}})
        self.api.edit(ENGINE_SNAPSHOTS, name, NS, merge={"metadata": {"finalizers": None, "deletionTimestamp": DELETED}})

    # --- the processes ---

    def _controllers(self, wiring: Wiring) -> list[Controller[Any]]:
        wiring.recorder = lambda name: self.told  # type: ignore[method-assign,assignment,return-value]
        backend = LonghornBackend(cast(Client, self.api), holds=self.manages)
        options = Options(
            settings=Settings(drivers={DRIVER: "here"}, alone=True),
            backends=lambda given: {DRIVER: cast(Any, backend)},
            holds=self.manages,
        )
        return [*super()._controllers(wiring), *make_controllers(wiring, options)]


def _decoded(kind: Any, body: Json) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body), type=kind.type)
