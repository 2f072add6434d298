"""A volume of engines with all the controllers that have to do with its snapshots, and the one that follows what they take.

The webhook is played: what is new is stamped with what it takes. After every effect, of a controller or of the engine, what is
booked is compared with what is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.unit.engines.world import MIB, NS
from tests.unit.snapshots.api.objects import patched
from tests.unit.snapshots.engine_cluster import EngineCluster
from tests.unit.snapshots.memory_api import Json, MemoryApi
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES
from ullage.engines.chain import HEAD
from ullage.engines.merging import merges_of
from ullage.engines.model import info_of
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind, Meta
from ullage.kube.slices import Wiring
from ullage.ledger.charging.stamps import CHARGED_NAMESPACE, FREE, PLAN, STAMP, Stamp, stamp_of
from ullage.space.accounts import NAMESPACE_CELL, stamp_for, vm_cell
from ullage.space.charges import DIALECTS
from ullage.space.controllers.follow.controller import Follower, payers_by
from ullage.space.controllers.follow.lookup import make_lookup, watches
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import VIRTUAL_MACHINES

TEAM = "team"


class StampingApi(MemoryApi):
    """With the mutating hook, and somebody who looks after every write."""

    def __init__(self) -> None:
        super().__init__()
        self.stamps: Callable[[Kind[Any], Json], Json] = lambda kind, body: body
        self.looks: Callable[[], None] = lambda: None

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        body = self.stamps(kind, msgspec.json.decode(msgspec.json.encode(obj)))
        return await super().create(kind, msgspec.convert(body, kind.type))

    def _store(self, place: Any, body: Json, event: str) -> Json:
        stored = super()._store(place, body, event)
        self.looks()
        return stored


@dataclass
class FollowCluster(EngineCluster):
    api: StampingApi = field(default_factory=StampingApi)
    stamped: bool = True  # whether there is a webhook
    machines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.watches = tuple(dict.fromkeys((*self.watches, *watches(backups=True))))
        self.seen: list[tuple[int, int]] = []  # what was booked and what was there, where that is less
        self.api.stamps = self._stamp
        self.api.looks = self._look
        self._fill()
        shown = {name: info_of(one) for name, one in self.engines["vol"].entries.items()}
        self.api.edit(ENGINES, "vol-e-0", NS, merge={"status": {"snapshots": msgspec.to_builtins(shown)}})

    def _fill(self) -> None:
        """Before every snapshot as much is written as it has then."""
        engine = self.engines["vol"]
        taken = engine.take

        def take(name: str, *, size: int = MIB, **rest: Any) -> None:
            taken(name, size=size, **rest)
            engine.grow(MIB)

        engine.take = take  # type: ignore[method-assign]
        engine.grow(MIB)
        engine.after = lambda call: self._look()

    # --- what is there ---

    def take(self, name: str = "nightly") -> None:
        super().take(name)
        if self.stamped:
            text = str(stamp_for(MIB, self.machines))
            self.api.edit(self.dialect.snapshots, name, TEAM, merge={"metadata": {"annotations": {STAMP: text}}})

    def ask(self, name: str = "snap", volume: str = "vol", **rest: Any) -> None:
        super().ask(name, volume, **rest)
        if self.stamped:
            marks = {STAMP: str(stamp_for(MIB, self.machines)), CHARGED_NAMESPACE: TEAM}
            self.api.edit(ENGINE_SNAPSHOTS, name, NS, merge={"metadata": {"annotations": marks}})

    def vm(self, name: str, *claims: str) -> None:
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        body = {"metadata": {"name": name, "namespace": TEAM}, "spec": {"template": {"spec": {"volumes": volumes}}}}
        self.api.put(VIRTUAL_MACHINES, body)

    def backup(self, name: str = "saved", *, amount: int = MIB) -> None:
        """A backup with the claim `db` in its plan, as the webhook admits it and its controller holds it."""
        marks = {STAMP: str(stamp_for(amount)), PLAN: f'{{"db":{amount}}}'}
        meta = {"name": name, "namespace": TEAM, "annotations": marks, "finalizers": ["ullage.io/vm-backup"]}
        spec = {"source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "db"}}
        self.api.put(VM_BACKUPS, {"metadata": meta, "spec": spec})

    def own(self, name: str, backup: str = "saved", *, stamp: Stamp | None = FREE) -> None:
        """Makes a VolumeSnapshot a member; without a stamp it only says that it is one."""
        owner = {"apiVersion": VM_BACKUPS.api_version, "kind": VM_BACKUPS.kind, "name": backup, "uid": f"uid-{backup}"}
        change: Json = {"ownerReferences": [{**owner, "controller": True}]}
        if stamp is not None:
            change["annotations"] = {STAMP: str(stamp)}
        self.api.edit(self.dialect.snapshots, name, TEAM, merge={"metadata": change})

    def _stamp(self, kind: Kind[Any], body: Json) -> Json:
        if kind is not ENGINE_SNAPSHOTS or not self.stamped:
            return body
        name = body["metadata"]["name"]
        size = merges_of(self.engines["vol"].entries).sizes.get(name, 0)
        stamp = FREE if name.startswith("snapshot-") else stamp_for(size, self.machines)
        return patched(body, {"metadata": {"annotations": {CHARGED_NAMESPACE: TEAM, STAMP: str(stamp)}}})

    # --- what is seen ---

    def payers(self) -> dict[str, Stamp]:
        """Everything that is charged, by kind and name."""
        kinds = [kind for dialect in DIALECTS for kind in (dialect.snapshots, dialect.records)]
        found: dict[str, Stamp] = {}
        for kind in (*kinds, ENGINE_SNAPSHOTS, VM_BACKUPS):
            for body in self.api.bodies(kind):
                meta = msgspec.convert(body["metadata"], Meta)
                own = kind is VM_BACKUPS or kind in [dialect.snapshots for dialect in DIALECTS]
                if STAMP in meta.annotations and (own or CHARGED_NAMESPACE in meta.annotations):
                    found[f"{kind.kind} {meta.name}"] = stamp_of(meta)
        return found

    def paying(self) -> dict[str, int]:
        """Those that pay something, in MiB."""
        return {name: amount // MIB for name, one in self.payers().items() if (amount := one.takes[NAMESPACE_CELL].value())}

    def booked(self, vm: str = "") -> int:
        cell = vm_cell(vm) if vm else NAMESPACE_CELL
        return sum(one.takes[cell].value() for one in self.payers().values())

    def truth(self) -> int:
        entries = self.engines["vol"].entries
        return sum(one.size for name, one in entries.items() if name != HEAD and not one.removed)

    def _look(self) -> None:
        if self.stamped and "vol" in self.engines and self.booked() < self.truth():
            self.seen.append((self.booked(), self.truth()))

    def exact(self) -> bool:
        return self.booked() == self.truth()

    # --- the processes ---

    def _controllers(self, wiring: Wiring) -> list[Controller[Any]]:
        lookup = make_lookup(wiring, backups=True)
        follower = Follower(wiring, lookup, payers_by(lookup, lambda ledger, cell: False))
        return [*super()._controllers(wiring), follower.controller()]
