"""A master and its seeds with everything real but the servers: all controllers of the master, and on every seed all of its
controllers, its hooks and its ledgers, in virtual time.

The master reaches each seed by a link that a test cuts: whatever is under way breaks, and the seed goes on. What must hold is
looked at with every single write, wherever that is made.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Final, cast

import msgspec

from tests.unit.kube.client.test_foreign import kubeconfig
from tests.unit.kube.virtual_time import VirtualClock
from tests.unit.projects.master_scene import Api
from tests.unit.projects.seed_scene import SYSTEM, SeedScene, review_of
from tests.unit.snapshots.memory_api import Crash, Fuse
from ullage.kube.builtin.core import SECRETS, secret_data
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.errors import Unavailable
from ullage.kube.kinds import Kind
from ullage.kube.review import Decision, Review
from ullage.kube.slices import Slice, Wiring
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.projects.api.kkp import PROJECTS, SEEDS
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.escrow.record import read_record
from ullage.projects.escrow.terms import Escrow
from ullage.projects.names import ACCOUNT, ESCROW
from ullage.projects.settings import SEED_NAMESPACE, Settings
from ullage.projects.slice import master as master_slice
from ullage.projects.slice import seed as seed_slice

Json = dict[str, Any]
PROJECT: Final = "abc"
NAME: Final = f"project-{PROJECT}"
CLUSTER: Final = "c"
ANSWER_SECONDS: Final = 10.0  # that a request has at the hook


class EscrowFuse(Fuse):
    """Blows before or after a step of the escrow, and stays blown: nothing of a process that is dead is written any more."""

    def _pass(self) -> None:
        self.passed += 1
        if 0 <= self.blows_at <= self.passed:
            raise Crash


class Link:
    """A seed's API as the master reaches it. Every limit that is carried there passes the fuse of the master's process."""

    def __init__(self, seed: Any, fuse: Callable[[], Fuse]) -> None:
        self._seed = seed
        self._fuse = fuse
        self.config = Config(server="https://seed.example.com")
        self._cut = asyncio.Event()
        self.is_cut = False

    def cut(self) -> None:
        self.is_cut = True
        self._cut.set()

    def heal(self) -> None:
        self.is_cut = False
        self._cut = asyncio.Event()

    async def __aenter__(self) -> Link:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def _pass(self, work: Any) -> Any:
        """A call that breaks on its way may have been done: the server goes on with what it was sent."""
        if self.is_cut:
            work.close()
            raise Unavailable("no connection", reason="NoAnswer", sent=False)
        task, cut = asyncio.ensure_future(work), asyncio.ensure_future(self._cut.wait())
        try:
            await asyncio.wait((task, cut), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Unavailable("the connection broke", reason="NoAnswer")
            return task.result()
        finally:
            cut.cancel()
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _write(self, kind: Kind[Any], work: Any) -> Any:
        if kind is not LEDGERS:
            return await self._pass(work)
        try:
            self._fuse().before(kind.name)
        except Crash:
            work.close()
            raise
        done = await self._pass(work)
        self._fuse().after()
        return done

    async def find(self, *place: Any) -> Any:
        return await self._pass(self._seed.find(*place))

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        return await self._write(kind, self._seed.create(kind, obj))

    async def patch(self, kind: Kind[Any], *place: Any, **given: Any) -> Any:
        return await self._write(kind, self._seed.patch(kind, *place, **given))

    async def delete(self, kind: Kind[Any], *place: Any, **given: Any) -> None:
        await self._write(kind, self._seed.delete(kind, *place, **given))

    async def list(self, *place: Any, **given: Any) -> Any:
        return await self._pass(self._seed.list(*place, **given))

    async def latest(self, *place: Any, **given: Any) -> Any:
        return await self._pass(self._seed.latest(*place, **given))

    async def absent(self, kind: Kind[Any]) -> Any:
        return await self._pass(self._seed.absent(kind))

    async def watch(self, *place: Any, **given: Any) -> AsyncGenerator[Any, None]:
        async with contextlib.aclosing(self._seed.watch(*place, **given)) as events:
            while True:
                yield await self._pass(anext(events))


class MasterApi(Api):
    """`links` are the ways to other clusters, by host. Records of the escrow pass the fuse, and nothing else does."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__("master", clock)
        self.links: dict[str, Link] = {}
        self.escrow_fuse = EscrowFuse()

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any:
        meta = (given.get("merge") or {}).get("metadata") or {}
        if kind is not PROJECT_QUOTAS or ESCROW not in (meta.get("annotations") or {}):
            return await super().patch(kind, name, namespace, **given)
        self.escrow_fuse.before("record")
        done = await super().patch(kind, name, namespace, **given)
        self.escrow_fuse.after()
        return done

    def beside(self, config: Config) -> Any:
        return self.links[config.server.removeprefix("https://")]


class PlatformSeed(SeedScene):
    """A seed with one user cluster, and the slices that run on it."""

    def slice(self) -> Slice:
        return seed_slice(self.settings)

    def _review(self, kind: Kind[Any], new: Json, old: Json | None, *, cluster: str, dry_run: bool) -> Review:
        deadline = self.clock.monotonic() + ANSWER_SECONDS
        return review_of(kind, new, old, cluster=cluster, dry_run=dry_run, deadline=deadline)

    def names(self) -> list[str]:
        return sorted(one.metadata.name for one in self.seed.others[CLUSTER].all(MACHINES)) if self.seed.others else []

    def limit(self) -> int | None:
        """What its ledger allows now; None: no limit."""
        found = self.seed.get(LEDGERS, Key(NAMESPACE, NAME))
        text = None if found is None else found.spec.limits.get(ACCOUNT, {}).get("cpu")
        return None if text is None else int(text)

    async def ask(self, name: str) -> Decision:
        """For a Machine of one processor."""
        spec = {"cloudProvider": "fake", "cloudProviderSpec": {"cpu": "1", "memory": "1Gi", "storage": "1Gi"}}
        body = {"metadata": {"namespace": SYSTEM, "name": name}, "spec": {"providerSpec": {"value": spec}}}
        return await self.submit(MACHINES, body, cluster=CLUSTER)


class PlatformScene:
    """`in_force` is the largest quota that may still be in force: one that was lowered is, until nothing more is granted."""

    def __init__(self, *seeds: str, quota: int) -> None:
        self.clock = VirtualClock()
        self.api = MasterApi(self.clock)
        self.seeds: dict[str, PlatformSeed] = {}
        self.links: dict[str, Link] = {}
        self.faults: list[str] = []
        self.quota = self.in_force = quota
        self.limited = False  # whether the first quota is in force
        self.asking: asyncio.Task[None] | None = None  # somebody who asks until he has what he wants
        self._before: dict[str, int] = {}
        self._master: contextlib.AsyncExitStack | None = None
        self.api.put(PROJECTS, {"metadata": {"name": PROJECT}})
        self.api.committed = self.check
        for seed in seeds:
            self._add(seed)

    def _add(self, name: str) -> None:
        made = self.seeds[name] = PlatformSeed(Settings())
        user: Any = made.cluster(CLUSTER, of=PROJECT, provider="fake")
        user.config = Config(server=f"https://{CLUSTER}")
        made.seed.committed = made.seed.others[CLUSTER].committed = self.check
        self.links[name] = self.api.links[f"{name}.example.com"] = Link(made.seed, lambda: self.api.escrow_fuse)
        text = kubeconfig(cluster={"server": f"https://{name}.example.com"})
        where = {"name": f"kubeconfig-{name}", "namespace": SEED_NAMESPACE}
        self.api.put(SECRETS, {"metadata": where, "data": secret_data({"kubeconfig": text})})
        self.api.put(SEEDS, {"metadata": {"name": name, "namespace": SEED_NAMESPACE}, "spec": {"kubeconfig": where}})

    # --- the processes ---

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The seeds, and the master, which may be killed meanwhile."""
        async with contextlib.AsyncExitStack() as stack:
            for seed in self.seeds.values():
                await stack.enter_async_context(seed.served(controllers=True))
            try:
                await self.start_master()
                yield
            finally:
                await self.kill_master()

    async def start_master(self) -> None:
        if self._master is None:
            self._master = contextlib.AsyncExitStack()
            await self._master.enter_async_context(self._process())

    async def kill_master(self) -> None:
        if self._master is not None:
            stack, self._master = self._master, None
            await stack.aclose()

    @property
    def is_dead(self) -> bool:
        """Whether the master's process blew its fuse."""
        fuse = self.api.escrow_fuse
        return 0 <= fuse.blows_at <= fuse.passed

    @contextlib.asynccontextmanager
    async def _process(self) -> AsyncIterator[None]:
        wiring = Wiring(cast(Client, self.api), instance="master", clock=self.clock)
        made = wiring.controllers((master_slice(Settings()),))
        async with wiring.holding(asyncio.Event()):
            runs = [*(cache.run() for cache in wiring.caches), *(one.run() for one in made)]
            tasks = [asyncio.create_task(run) for run in runs]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    # --- what people do ---

    def set_quota(self, cpu: int) -> None:
        self.quota, self.in_force = cpu, max(self.in_force, cpu)
        spec = {"subject": {"name": PROJECT, "kind": "project"}, "quota": {"cpu": str(cpu)}}
        if self.api.body(PROJECT_QUOTAS, NAME) is None:
            self.api.put(PROJECT_QUOTAS, {"metadata": {"name": NAME}, "spec": spec})
        else:
            self.api.edit(PROJECT_QUOTAS, NAME, merge={"spec": spec})

    # --- what has come of it ---

    def record(self) -> Escrow:
        body = self.api.body(PROJECT_QUOTAS, NAME)
        return Escrow() if body is None else read_record(msgspec.convert(body, type=PROJECT_QUOTAS.type).metadata)

    def granted(self) -> dict[str, int | None]:
        """By seed, as the record has it."""
        parts = {seed: share.parts.get("cpu") for seed, share in self.record().shares.items()}
        return {seed: part.granted.value() if part and part.granted is not None else None for seed, part in parts.items()}

    def machines(self) -> dict[str, int]:
        return {name: len(seed.names()) for name, seed in self.seeds.items()}

    def limits(self) -> dict[str, int | None]:
        return {name: seed.limit() for name, seed in self.seeds.items()}

    def is_in_force(self) -> bool:
        granted = self.granted()
        known = [one for one in granted.values() if one is not None]
        return granted.keys() == self.seeds.keys() and len(known) == len(granted) and sum(known) <= self.quota

    # --- what must hold, with every write ---

    def check(self) -> None:
        """Notes what is wrong: whoever writes must not be the one that fails."""
        if self.is_in_force():
            self.limited, self.in_force = True, self.quota
        machines, limits, granted = self.machines(), self.limits(), self.granted()
        if self.limited:
            shown = f"machines {machines}, limits {limits}, granted {granted}, quota {self.quota}, in force {self.in_force}"
            if sum(machines.values()) > self.in_force:
                self.faults.append(f"more machines than any quota in force: {shown}")
            for name, number in machines.items():
                limit, most = limits[name], granted.get(name)
                if number > self._before.get(name, 0) and limit is not None and number > limit:
                    self.faults.append(f"{name} has grown past its limit: {shown}")
                if most is not None and number > most:
                    self.faults.append(f"{name} has more machines than it is granted: {shown}")
                if most is not None and (limit is None or limit > most):
                    self.faults.append(f"{name} has a higher limit than it is granted: {shown}")
        self._before = machines

    def assert_sound(self) -> None:
        self.check()
        assert not self.faults, self.faults[0]

    async def until(self, what: str, holds: Callable[[], bool], seconds: float = 600.0) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not holds():  # noqa: ASYNC110  virtual time: it costs nothing
                    await asyncio.sleep(0.5)
        except TimeoutError:
            shown = f"machines {self.machines()}, limits {self.limits()}, record {self.record().written()}"
            raise AssertionError(f"{what}: {shown}, quota {self.quota}") from None
