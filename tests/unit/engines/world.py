"""Volumes on an API in memory, engines that can fail in every way, and somebody who attaches volumes: around the real
controllers, which may die before and after every single effect."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tests.unit.snapshots.memory_api import Crash, Fuse, Json, MemoryApi, Told
from ullage.clock import Clock, SystemClock
from ullage.engines import model
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, KINDS, VOLUMES, Snapshot, Volume
from ullage.engines.chain import HEAD, Entry, Limits, PollResult, PurgeProgress
from ullage.engines.client.errors import Reason
from ullage.engines.controllers.engine import EngineMonitor
from ullage.engines.controllers.snapshot import SnapshotController
from ullage.engines.controllers.snapshot_rules import needs_attachment
from ullage.engines.controllers.volume import VolumeController
from ullage.engines.lookup import lookup_of
from ullage.engines.metrics import Metrics
from ullage.engines.settings import Settings
from ullage.errors import Impossible, NotNow
from ullage.kube.backoff import Backoff
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind, Meta
from ullage.kube.slices import Part, Wiring

NS = "longhorn-system"
CREATED = "2026-01-01T00:00:05Z"
MIB = 1024**2
GIB = 1024**3


class FakeEngine:
    """A chain of snapshots with longhorn-engine's rules for merging, without data."""

    def __init__(self, volume: str, fuse: Fuse) -> None:
        self.volume = volume
        self._fuse = fuse
        self.running = False
        self.entries: dict[str, Entry] = {}
        self.empty()
        self.taken: list[str] = []
        self.calls: list[str] = []
        self.forgetful = False  # takes a second snapshot under a name that it has, as old engines do
        self.purging = False  # while it is set, a purge does not get anywhere
        self.purge_error = ""
        self.given = Limits(max_count=250)
        self.before: Callable[[str], None] = lambda call: None  # may raise: nothing happens
        self.after: Callable[[str], None] = lambda call: None  # may raise: it has happened, and the answer is lost

    # --- as others see it ---

    async def list(self) -> Mapping[str, Entry]:
        self._called("list")
        return dict(self.entries)

    async def poll(self) -> PollResult:
        return PollResult(await self.list(), await self.purge_status(), await self.limits())

    async def has(self, name: str) -> bool:
        self._called("has")
        return name in self.entries

    async def create(self, name: str, labels: Mapping[str, str]) -> None:
        self._effect("create", lambda: self.take(name, labels=labels))

    async def mark_removed(self, name: str) -> None:
        self._effect("mark_removed", lambda: self._mark(name))

    async def revert(self, name: str) -> None:
        raise NotImplementedError

    async def is_offered(self) -> bool:
        return True

    async def purge(self) -> None:
        self._effect("purge", self._purge)

    async def purge_status(self) -> Mapping[str, PurgeProgress]:
        self._called("purge_status")
        state = "error" if self.purge_error else "in_progress" if self.purging else "complete"
        return {"tcp://10.0.0.1:10000": PurgeProgress(purging=self.purging, error=self.purge_error, state=state)}

    async def limits(self) -> Limits:
        self._called("limits")
        return self.given

    async def set_limits(self, limits: Limits) -> None:
        self._called("set_limits")
        self.given = limits

    def _called(self, call: str) -> None:
        self.calls.append(call)
        if not self.running:
            raise NotNow(f"volume {self.volume} is not attached", reason=Reason.DETACHED)
        self.before(call)

    def _effect(self, call: str, do: Callable[[], None]) -> None:
        self._fuse.before(f"engine {call}")
        self._called(call)
        do()
        self._fuse.after()
        self.after(call)

    # --- what it does ---

    def take(self, name: str, *, labels: Mapping[str, str] | None = None, user: bool = True, size: int = MIB) -> None:
        if name in self.entries and self.forgetful:
            self.taken.append(name)
            return
        if name in self.entries:
            raise Impossible(f"snapshot volume-snap-{name}.img is already existing", reason=Reason.EXISTS)
        head = self.entries[HEAD]
        self.entries[name] = Entry(
            name=name,
            parent=head.parent,
            children=frozenset({HEAD}),
            user_created=user,
            created=CREATED,
            size=size,
            labels=labels or {},
        )
        self._relink(head.parent, HEAD, name)
        self.entries[HEAD] = replace(head, parent=name, size=0)
        self.taken.append(name)

    def branch(self, parent: str, child: str) -> None:
        """Has one more snapshot build on another, as after a revert."""
        self.entries[child] = Entry(name=child, parent=parent, created=CREATED)
        old = self.entries[parent]
        self.entries[parent] = replace(old, children=old.children | {child})

    def grow(self, size: int) -> None:
        self.entries[HEAD] = replace(self.entries[HEAD], size=size)

    def _mark(self, name: str) -> None:
        if name in self.entries:
            self.entries[name] = replace(self.entries[name], removed=True)

    def _purge(self) -> None:
        if self.purging:
            raise NotNow("replica is already purging snapshots", reason=Reason.PURGING)
        if self.purge_error:
            return
        while name := next((name for name in self.entries if self._can_go(name)), ""):
            gone = self.entries.pop(name)
            for child in gone.children:
                old = self.entries[child]
                self.entries[child] = replace(old, parent=gone.parent, size=old.size + gone.size)
            self._relink(gone.parent, name, *gone.children)

    def _can_go(self, name: str) -> bool:
        entry = self.entries[name]
        return entry.removed and len(entry.children) < 2 and entry.children != {HEAD}

    def _relink(self, parent: str, old: str, *new: str) -> None:
        if parent:
            found = self.entries[parent]
            self.entries[parent] = replace(found, children=(found.children - {old}) | set(new))

    def empty(self) -> None:
        self.entries = {HEAD: Entry(name=HEAD, created=CREATED, user_created=False)}

    @property
    def names(self) -> set[str]:
        return set(self.entries) - {HEAD}


@dataclass
class World:
    """`pinned` volumes are attached by somebody else; the others only while there is a ticket."""

    settings: Settings = field(default_factory=lambda: Settings(interval=0.02))
    api: MemoryApi = field(default_factory=MemoryApi)
    told: Told = field(default_factory=Told)
    clock: Clock = field(default_factory=SystemClock)
    backoff: Backoff = field(default_factory=lambda: Backoff(first=0.01, cap=0.02))

    def __post_init__(self) -> None:
        self.watches: tuple[Kind[Any], ...] = KINDS
        self.engines: dict[str, FakeEngine] = {}
        self.pinned: set[str] = set()
        self.controllers: dict[str, Controller[Any]] = {}
        self.added: dict[str, list[str]] = {}  # by controller: the names of the keys that were woken
        self.attachments = 0

    def of(self, volume: str) -> FakeEngine:
        return self.engines[volume]

    # --- what is there ---

    def volume(self, name: str = "vol", *, uid: str = "", attached: bool = True, **spec: Any) -> FakeEngine:
        size = {"size": str(GIB)}
        body = {"metadata": {"name": name, "namespace": NS, "uid": uid or f"uid-{name}"}, "spec": {**size, **spec}}
        self.api.put(VOLUMES, body)
        if attached:
            self.pinned.add(name)
        engine = self.engines.setdefault(name, FakeEngine(name, self.api.fuse))
        self.engine_object(f"{name}-e-0", name)
        self.attach()
        return engine

    def engine_object(self, name: str, volume: str) -> None:
        spec = {"volumeName": volume, "volumeSize": str(GIB)}
        self.api.put(ENGINES, {"metadata": {"name": name, "namespace": NS}, "spec": spec, "status": {}})

    def ask(self, name: str = "snap", volume: str = "vol", *, create: bool = True, stamp: bool = True, **spec: Any) -> None:
        """As the webhook lets it through."""
        plain = Meta(name=name, namespace=NS)
        meta = model.stamped(plain, self.found_volume(volume)) if stamp else plain
        body = {"metadata": msgspec.to_builtins(meta), "spec": {"volume": volume, "createSnapshot": create, **spec}}
        self.api.put(ENGINE_SNAPSHOTS, body)

    def delete(self, name: str = "snap") -> None:
        if self.body(ENGINE_SNAPSHOTS, name) is not None:
            self.api.remove(ENGINE_SNAPSHOTS, name, NS)

    def delete_volume(self, name: str = "vol") -> None:
        if self.body(VOLUMES, name) is not None:
            self.api.remove(VOLUMES, name, NS)

    # --- what is seen ---

    def body(self, kind: Kind[Any], name: str) -> Json | None:
        return self.api.body(kind, name, NS)

    def snapshot(self, name: str = "snap") -> Snapshot | None:
        body = self.body(ENGINE_SNAPSHOTS, name)
        return None if body is None else _decoded(ENGINE_SNAPSHOTS, body)

    def found_volume(self, name: str = "vol") -> Volume:
        body = self.body(VOLUMES, name)
        assert body is not None
        found: Volume = _decoded(VOLUMES, body)
        return found

    def names(self) -> set[str]:
        return {body["metadata"]["name"] for body in self.api.bodies(ENGINE_SNAPSHOTS)}

    def ready(self, name: str = "snap") -> bool:
        found = self.snapshot(name)
        return found is not None and found.status.ready_to_use is True

    def error(self, name: str = "snap") -> str:
        found = self.snapshot(name)
        return found.status.error if found is not None else ""

    def condition(self, type: str, name: str = "snap") -> str:
        """Its reason, where it is True."""
        found = self.snapshot(name)
        conditions = found.status.conditions if found is not None else ()
        return next((one.reason for one in conditions if one.type == type and one.status == "True"), "")

    def tickets(self, name: str = "vol") -> list[str]:
        body = self.body(VOLUMES, name) or {}
        return list((body.get("spec") or {}).get("attachmentTickets") or {})

    def gone(self, name: str = "snap") -> bool:
        return self.snapshot(name) is None and not self.tickets()

    # --- who attaches ---

    def attach(self) -> None:
        """Attaches and detaches until volumes are as they are wanted."""
        for body in list(self.api.bodies(ENGINES)):
            volume = body["spec"]["volumeName"]
            wanted = (self.body(VOLUMES, volume) is not None) and (volume in self.pinned or bool(self.tickets(volume)))
            state, name = "running" if wanted else "stopped", body["metadata"]["name"]
            if (body.get("status") or {}).get("currentState") != state:
                self.attachments += wanted
                self.engines[volume].running = wanted
                self.api.edit(ENGINES, name, NS, merge={"status": {"currentState": state}})

    async def _attach_for_ever(self) -> None:
        while True:
            self.attach()
            await self._news()

    async def _news(self) -> None:
        seen = self.api.version
        while self.api.version == seen:  # noqa: ASYNC110  a version that a test's own write made counts too
            await asyncio.sleep(0.001)

    # --- the processes ---

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """One life of a controller process; ends when the block does, or with `Crash`."""
        wiring = Wiring(self.api, clock=self.clock)  # type: ignore[arg-type]
        controllers = wiring.made(Part(make=self._controllers, watches=self.watches))
        self.controllers = {one.name: one for one in controllers}
        self.added = {one.name: _record_adds(one) for one in controllers}
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(cache.run()) for cache in wiring.caches]
            tasks += [group.create_task(one.run()) for one in controllers]
            tasks.append(group.create_task(self._attach_for_ever()))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    def _controllers(self, wiring: Wiring) -> list[Controller[Any]]:
        lookup, metrics, told = wiring.shared(lookup_of), Metrics(), self.told
        client, given, clock = wiring.client, self.settings, self.clock
        engines: Any = self
        monitor = EngineMonitor(client, lookup, engines, settings=given, metrics=metrics, clock=clock)
        polling = monitor.controller()
        snapshots = SnapshotController(
            client,
            lookup,
            engines,
            settings=given,
            recorder=told,
            metrics=metrics,
            poll_now=polling.queue.add,
            clock=clock,
            backoff=self.backoff,
        )
        return [
            snapshots.controller(),
            VolumeController(client, lookup, needs_attachment=needs_attachment, clock=clock).controller(),
            polling,
        ]

    @staticmethod
    async def breath() -> None:
        """Lets everybody else go on for a moment."""
        await asyncio.sleep(0)

    def look(self, volume: str = "vol") -> None:
        """Has the monitor look at an engine now."""
        self.controllers["engine-monitor"].queue.add(Key(NS, f"{volume}-e-0"))

    async def quiet(self) -> None:
        """Until every engine that is looked at has been looked at some more times, and nothing is left to do."""
        served = [body["spec"]["volumeName"] for body in self.api.bodies(ENGINES)]
        alone = {name: one for name, one in self.engines.items() if one.running and served.count(name) == 1}
        seen = {name: one.calls.count("list") for name, one in alone.items()}
        await holds(lambda: all(one.calls.count("list") > seen[name] + 3 for name, one in alone.items()))
        for name, one in self.controllers.items():
            if name != "engine-monitor":
                await one.queue.drained()

    async def live(self, until: Callable[[], bool]) -> None:
        """Lives until something holds, through as many deaths as there are."""
        while True:
            try:
                async with self.running():
                    await holds(until)
                return
            except* Crash:
                pass


async def holds(condition: Callable[[], bool], *, seconds: float = 10.0) -> None:
    """Engines change without anybody being told, so this looks again and again."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


def _record_adds(controller: Controller[Any]) -> list[str]:
    added: list[str] = []
    add = controller.queue.add

    def recorded(key: Any, *, after: float = 0.0) -> None:
        added.append(key.name)
        add(key, after=after)

    controller.queue.add = recorded  # type: ignore[method-assign]
    return added


def _decoded(kind: Kind[Any], body: Json) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body), type=kind.type)
