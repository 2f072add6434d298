"""A small cluster for tests of groups: an API in memory, the real controllers of snapshots and of groups, and a driver that can
fail in every way, and may know groups or not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.unit.kube.virtual_time import VirtualClock
from tests.unit.snapshots.charged_api import ChargedApi, amount_of, stamp
from tests.unit.snapshots.memory_api import Crash, Json, MemoryApi, Told
from ullage.errors import Impossible
from ullage.kube.backoff import Backoff
from ullage.kube.builtin import core, storage
from ullage.kube.controller.controller import Controller
from ullage.kube.errors import Forbidden
from ullage.kube.kinds import Kind
from ullage.kube.slices import Part, Wiring
from ullage.ledger.charging.stamps import STAMP
from ullage.policies.cut_hooks.interface import CutHooks
from ullage.policies.groups.api import GROUP_CLASSES, GROUP_CONTENTS, GROUPS
from ullage.policies.groups.slice import WATCHES, GroupOptions, Unhooked, make_controllers
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.ga.types import CONTENTS, VOLUME_SNAPSHOTS
from ullage.snapshots.backends.base import (
    NO_SECRETS,
    BackendGroup,
    BackendSnapshot,
    Creation,
    GroupCreation,
    Secrets,
    VolumeHandle,
)
from ullage.snapshots.controllers.claim_release import ClaimReleaser
from ullage.snapshots.controllers.record_sync import RecordSyncer
from ullage.snapshots.controllers.snapshot_bind import Binder
from ullage.snapshots.lookup import kinds_of, snapshot_lookup, volume_lookup
from ullage.snapshots.metrics import Metrics
from ullage.snapshots.settings import Settings
from ullage.snapshots.volume_queue import VolumeQueues

DRIVER = "csi.example.com"
TEAM = "team"
CUT_AT = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
MIB = 1 << 20


class GroupDriver:
    """Snapshots by their names, behind handles that say nothing of names."""

    driver = DRIVER

    def __init__(self, cluster: GroupCluster) -> None:
        self._cluster = cluster
        self.groups = False
        self.ready = True
        self.names: dict[str, tuple[str, str]] = {}  # handle → name and volume
        self.group_names: dict[str, tuple[str, tuple[str, ...]]] = {}  # handle → name and members
        self.sizes: dict[str, int] = {}  # by volume: what a snapshot would take now
        self.taken: dict[str, int] = {}  # by volume: what a snapshot of it turns out to take; of others that is not told
        self.moments: dict[str, datetime] = {}  # by volume: when it is cut, where that is not CUT_AT
        self.cuts: list[str] = []  # the volumes, as they were cut
        self.asked: list[tuple[str, ...]] = []  # the volumes of each call for a group
        self.refuses: Callable[[str], None] = lambda volume: None  # may raise: nothing is made
        self.refuses_group: Callable[[], None] = lambda: None
        self.after_group: Callable[[], None] = lambda: None  # may raise: it is made, and the answer is lost

    async def create(self, creation: Creation) -> BackendSnapshot:
        volume = creation.volume.handle
        self._cluster.api.fuse.before(f"make {volume}")
        self.refuses(volume)
        handle = next((one for one, (name, _) in self.names.items() if name == creation.name), "")
        if not handle:
            handle = self._cut(creation.name, volume)
        self._cluster.api.fuse.after()
        return self._snapshot(handle)

    def _cut(self, name: str, volume: str) -> str:
        handle = f"shot-{len(self.cuts)}"
        self.cuts.append(volume)
        self.names[handle] = name, volume
        return handle

    def _snapshot(self, handle: str) -> BackendSnapshot:
        _, volume = self.names[handle]
        cut = self.moments.get(volume, CUT_AT)
        return BackendSnapshot(handle=handle, volume=volume, cut=cut, ready=self.ready, restore_size=4096)

    async def undo(self, creation: Creation) -> None:
        with contextlib.suppress(Impossible):
            await self.delete((await self.create(creation)).handle)

    async def delete(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        self._cluster.api.fuse.before(f"unmake {handle}")
        if any(handle in members for _, members in self.group_names.values()):
            raise Impossible(f"{handle} is in a group")
        self.names.pop(handle, None)
        self._cluster.api.fuse.after()

    async def find(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> BackendSnapshot | None:
        return self._snapshot(handle) if handle in self.names else None

    async def estimate(self, volume: VolumeHandle, *, owner: str = "") -> int | None:
        return self.sizes.get(volume.handle, MIB)

    async def size(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> int | None:
        return self.taken.get(self.names[handle][1])

    # --- groups ---

    async def knows_groups(self) -> bool:
        return self.groups

    async def create_group(self, creation: GroupCreation) -> BackendGroup:
        self._cluster.api.fuse.before(f"make group {creation.name}")
        self.refuses_group()
        self.asked.append(creation.volumes)
        handle = next((one for one, (name, _) in self.group_names.items() if name == creation.name), "")
        if not handle:
            handle = f"group-{len(self.asked)}"
            members = tuple(self._cut(f"{creation.name}/{volume}", volume) for volume in creation.volumes)
            self.group_names[handle] = creation.name, members
        self._cluster.api.fuse.after()
        self.after_group()
        return self._group(handle)

    def _group(self, handle: str) -> BackendGroup:
        _, members = self.group_names[handle]
        found = tuple(self._snapshot(one) for one in members)
        return BackendGroup(handle=handle, cut=CUT_AT, ready=self.ready, members=found)

    async def undo_group(self, creation: GroupCreation) -> None:
        with contextlib.suppress(Impossible):
            made = await self.create_group(creation)
            await self.delete_group(made.handle, [one.handle for one in made.members])

    async def delete_group(self, handle: str, members: Any, *, secrets: Secrets = NO_SECRETS) -> None:
        self._cluster.api.fuse.before(f"unmake group {handle}")
        for one in self.group_names.pop(handle, ("", ()))[1]:
            self.names.pop(one, None)
        self._cluster.api.fuse.after()

    async def find_group(self, handle: str, members: Any, *, secrets: Secrets = NO_SECRETS) -> BackendGroup | None:
        return self._group(handle) if handle in self.group_names else None


class StampingApi(ChargedApi):
    """Charges for new snapshots as well, as the webhook does: each for its claim's estimate."""

    def __init__(self, limit: int, estimate: int = MIB) -> None:
        super().__init__(limit)
        self.estimate = estimate

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        if kind is VOLUME_SNAPSHOTS:
            if self.booked() + self.estimate > self.limit:
                raise Forbidden(f"admission webhook denied the request: does not fit: asked {self.estimate}", code=403)
            obj = _stamped(obj, self.estimate)
        made = await super().create(kind, obj)
        self.most = max(self.most, self.booked())
        return made


def _stamped(obj: Any, amount: int) -> Any:
    from msgspec.structs import replace

    notes = {**obj.metadata.annotations, STAMP: stamp(amount)}
    return replace(obj, metadata=replace(obj.metadata, annotations=notes))


@dataclass
class GroupCluster:
    api: MemoryApi = field(default_factory=MemoryApi)
    told: Told = field(default_factory=Told)
    claims: tuple[str, ...] = ("data-0", "data-1", "data-2")
    drivers: Mapping[str, Any] = field(default_factory=lambda: {DRIVER: "here"})
    alone: bool = True
    hooks: CutHooks = field(default_factory=Unhooked)
    policy: str = "Delete"

    def __post_init__(self) -> None:
        self.driver = GroupDriver(self)
        self.clock = VirtualClock()
        self.api.put(storage.STORAGE_CLASSES, {"metadata": {"name": "fast"}, "provisioner": DRIVER})
        self.api.put(GROUP_CLASSES, {"metadata": {"name": "together"}, "driver": DRIVER, "deletionPolicy": self.policy})
        for name in self.claims:
            self.claim(name)

    # --- what is there ---

    def claim(self, name: str, *, labels: Json | None = None, driver: str = DRIVER, bound: bool = True) -> None:
        ref = {"namespace": TEAM, "name": name, "uid": f"uid-{name}"}
        spec = {"claimRef": ref, "csi": {"driver": driver, "volumeHandle": f"vol-{name}"}, "storageClassName": "fast"}
        self.api.put(core.PERSISTENT_VOLUMES, {"metadata": {"name": f"pv-{name}"}, "spec": spec})
        wanted = {"volumeName": f"pv-{name}", "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
        status = {"phase": "Bound" if bound else "Pending", "capacity": {"storage": "1Gi"}}
        meta = {"name": name, "namespace": TEAM, "labels": labels or {"app": "db"}, "uid": f"uid-{name}"}
        self.api.put(core.CLAIMS, {"metadata": meta, "spec": wanted, "status": status})

    def ask(self, name: str = "one", *, selector: Json | None = None, class_name: str = "together") -> None:
        source = {"selector": selector if selector is not None else {"matchLabels": {"app": "db"}}}
        meta = {"name": name, "namespace": TEAM, "uid": f"uid-{name}"}
        spec: Json = {"source": source, **({"volumeGroupSnapshotClassName": class_name} if class_name else {})}
        self.api.put(GROUPS, {"metadata": meta, "spec": spec})

    def delete(self, name: str = "one") -> None:
        if self.group(name) is not None:
            self.api.remove(GROUPS, name, TEAM)

    # --- what is seen ---

    def group(self, name: str = "one") -> Json | None:
        return self.api.body(GROUPS, name, TEAM)

    def status(self, name: str = "one") -> Json:
        return dict((self.group(name) or {}).get("status", {}))

    def error(self, name: str = "one") -> str:
        return str(self.status(name).get("error", {}).get("message", ""))

    def ready(self, name: str = "one") -> bool:
        return self.status(name).get("readyToUse") is True

    def content(self, name: str = "one") -> Json | None:
        return self.api.body(GROUP_CONTENTS, f"groupsnapcontent-uid-{name}")

    def members(self) -> dict[str, Json]:
        return {one["spec"]["source"]["persistentVolumeClaimName"]: one for one in self.api.bodies(VOLUME_SNAPSHOTS)}

    def records(self) -> list[Json]:
        return self.api.bodies(CONTENTS)

    def gone(self) -> bool:
        return self.group() is None and not self.members()

    def clean(self) -> bool:
        """Nothing is left, in the API or in the storage system."""
        left = [self.api.bodies(kind) for kind in (GROUPS, GROUP_CONTENTS, VOLUME_SNAPSHOTS, CONTENTS)]
        return not any(left) and not self.driver.names and not self.driver.group_names and self.free()

    def retained(self) -> bool:
        """The group is gone, and all its data is there, with what tells of it."""
        policies = [one["spec"]["deletionPolicy"] for one in self.records()]
        held = self.gone() and self.content() is not None and self.free()
        return held and policies == ["Retain"] * len(self.claims) and len(self.driver.names) == len(self.claims)

    def empty(self) -> bool:
        """The group has failed, and nothing of it is kept but itself and why."""
        kept = self.members() or self.records() or self.driver.names or self.driver.group_names
        return "None of its snapshots is kept" in self.error() and not kept and self.free()

    def free(self) -> bool:
        return not any(one["metadata"].get("finalizers") for one in self.api.bodies(core.CLAIMS))

    def booked(self) -> int:
        return sum(amount_of(one["metadata"].get("annotations", {})) for one in self.api.bodies(VOLUME_SNAPSHOTS))

    # --- the processes ---

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """One life of a controller process; ends when the block does, or with `Crash`."""
        wiring = Wiring(self.api, clock=self.clock)  # type: ignore[arg-type]
        watches = tuple(dict.fromkeys((*kinds_of((GA,)), *WATCHES)))
        controllers = wiring.made(Part(make=self._controllers, watches=watches))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(cache.run()) for cache in wiring.caches]
            tasks += [group.create_task(one.run()) for one in controllers]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    def _controllers(self, wiring: Wiring) -> list[Controller[Any]]:
        settings, queues, told = Settings(drivers=self.drivers, alone=self.alone), VolumeQueues(), self.told
        lookup, volumes, metrics = snapshot_lookup(wiring, GA), volume_lookup(wiring), Metrics(clock=wiring.clock)
        lookup.enqueue_records(queues)
        recorder: Any = told
        binder = Binder(
            wiring.client,
            lookup,
            volumes,
            settings=settings,
            queues=queues,
            recorder=recorder,
            metrics=metrics,
            clock=self.clock,
        )
        backends: Any = {DRIVER: self.driver}
        backoff = Backoff(first=0.5, cap=5.0)
        syncer = RecordSyncer(
            wiring.client, [lookup], backends, queues=queues, recorder=recorder, clock=self.clock, backoff=backoff
        )
        releaser = ClaimReleaser(wiring.client, [lookup], volumes, settings=settings)
        wiring.recorder = lambda name: recorder  # type: ignore[method-assign]
        options = GroupOptions(settings=settings, backends=lambda _: backends, hooks=lambda _: self.hooks)
        made = make_controllers(wiring, options)
        return [binder.controller(), syncer.controller(), releaser.controller(), *made]

    async def live(self, until: Callable[[], bool], seconds: float = 300.0) -> None:
        """Lives until something holds, through as many deaths as there are. In virtual time."""
        while True:
            try:
                async with self.running():
                    await self.api.until(until, seconds)
                return
            except* Crash:
                pass

    async def stay(self, seconds: float = 30.0) -> None:
        """Lives for so long, in virtual time."""
        async with self.running():
            await asyncio.sleep(seconds)
