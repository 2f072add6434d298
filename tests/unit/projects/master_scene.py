"""A master and its seeds, each an API in memory, around the real controllers of the master, in virtual time.

Seeds take limits by the rules of the kind, and count as soon as they have them. Their machines are booked in the ledger as the
webhook does it, so what is admitted is decided by the book alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from tests.unit.kube.client.test_foreign import kubeconfig
from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.snapshots.api.objects import patched
from tests.unit.snapshots.memory_api import DELETED, MemoryApi
from ullage.kube.builtin.core import SECRETS, secret_data
from ullage.kube.builtin.events import EVENTS
from ullage.kube.client.config import Config
from ullage.kube.errors import Invalid, Unavailable
from ullage.kube.kinds import Kind
from ullage.kube.slices import Part, Wiring
from ullage.ledger.amounts import Cell, Takings
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.book import Book, Charge, Observed, Refusal, book
from ullage.ledger.codec import book_of, status_of
from ullage.ledger.demand import may_be_granted, wanted_by, with_demand
from ullage.projects.api.kkp import PROJECTS, SEEDS, SETTINGS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.master import ELSEWHERE, WATCHES, make_controllers
from ullage.projects.names import ACCOUNT, ESCROW
from ullage.projects.settings import SEED_NAMESPACE, Settings
from ullage.quantity import Quantity

Json = dict[str, Any]
T = TypeVar("T")
NAME: Final = "project-abc"
SOURCE: Final = "machines.cluster.k8s.io/user-1"
CPU: Final = Cell(ACCOUNT, "cpu")
BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)


class Api(MemoryApi):
    """One cluster's API: generations, uids of its own, and a way there that can be cut."""

    def __init__(self, name: str, clock: VirtualClock) -> None:
        super().__init__()
        self.name = name
        self.clock = clock
        self.beside_of: dict[str, Api] = {}
        self.committed: Callable[[], None] = lambda: None
        self._away = False
        self._broken = asyncio.Event()

    async def __aenter__(self) -> Api:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def beside(self, config: Config) -> Api:
        return self.beside_of[config.server.removeprefix("https://")]

    def cut_off(self) -> None:
        """Nobody reaches it, and every watch breaks. What is there goes on as ever."""
        self._away = True
        self._broken.set()
        self._broken = asyncio.Event()

    def come_back(self) -> None:
        self._away = False

    def _reached(self) -> None:
        if self._away:
            raise Unavailable("no connection", reason="NoAnswer", sent=False)

    def _effect(self, what: str, write: Callable[[], Json]) -> Json:
        self._reached()
        return super()._effect(what, write)

    def _store(self, place: Any, body: Json, event: str) -> Json:
        meta, before = body["metadata"], self._objects.get(place)
        if event == "ADDED":
            body = patched(body, {"metadata": {"uid": f"{self.name}-{meta['uid']}", "generation": 1}})
        elif before is not None and before.get("spec") != body.get("spec"):
            body = patched(body, {"metadata": {"generation": before["metadata"].get("generation", 0) + 1}})
        stored = super()._store(place, body, event)
        self.committed()
        return stored

    # --- what clients call ---

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        self._reached()
        return await super().find(kind, name, namespace)

    async def delete(
        self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "", resource_version: str = ""
    ) -> None:
        place = self._place(kind, namespace, name)

        def write() -> Json:
            self._checked(place, uid, resource_version)
            return self._change(place, patched(self._objects[place], {"metadata": {"deletionTimestamp": DELETED}}))

        self._effect(f"delete {place.kind} {place.name}", write)

    async def latest(self, kind: Kind[Any], namespace: str = "", *, fields: str = "") -> str:
        self._reached()
        return await super().latest(kind, namespace)

    async def list(self, kind: Kind[Any], namespace: str = "", **given: Any) -> Any:
        self._reached()
        return await super().list(kind, namespace, **given)

    async def watch(self, kind: Kind[Any], namespace: str = "", **given: Any) -> AsyncGenerator[Any, None]:
        self._reached()
        broken = asyncio.ensure_future(self._broken.wait())
        async with contextlib.aclosing(super().watch(kind, namespace, **given)) as stream:
            try:
                while True:
                    event = asyncio.ensure_future(anext(stream))
                    await asyncio.wait((event, broken), return_when=asyncio.FIRST_COMPLETED)
                    if broken.done():
                        event.cancel()
                        await asyncio.gather(event, return_exceptions=True)
                        raise Unavailable("the connection broke", reason="NoAnswer")
                    yield event.result()
            finally:
                broken.cancel()
                if not event.done():
                    event.cancel()
                    await asyncio.gather(event, return_exceptions=True)


class SeedCluster(Api):
    """A seed with one project: its ledger, whoever books in it, and whoever counts."""

    def __init__(self, name: str, clock: VirtualClock) -> None:
        super().__init__(name, clock)
        self.machines = 0
        self.counts = True  # whether somebody counts

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any:
        if kind is not LEDGERS:
            return await super().patch(kind, name, namespace, **given)
        before = self.ledger()
        merge = dict(given["merge"])
        merge.pop("metadata", None)
        if before is not None and merge["spec"]["change"] <= before.spec.change:
            raise Invalid("limits change only together with a change number that rises", code=422)
        written = await super().patch(kind, name, namespace, merge=merge)
        if self.counts:
            self.fold()
        return written

    # --- its ledger ---

    def ledger(self) -> Ledger | None:
        body = self.body(LEDGERS, NAME, LEDGER_NAMESPACE)
        return None if body is None else msgspec.convert(body, type=Ledger)

    def limit(self, resource: str = "cpu") -> str | None:
        """As it is written; empty: none; None: there is no ledger."""
        found = self.ledger()
        return None if found is None else found.spec.limits.get(ACCOUNT, {}).get(resource, "")

    def change(self) -> int:
        found = self.ledger()
        return found.spec.change if found is not None else 0

    def _write(self, known: Book) -> None:
        ledger = self.ledger()
        assert ledger is not None
        said = msgspec.to_builtins(status_of(known, ledger, sources={SOURCE}, now=self.clock.now()))
        self.edit(LEDGERS, NAME, LEDGER_NAMESPACE, merge={"status": {**dict.fromkeys(("demand", "pending")), **said}})

    def admit(self) -> bool:
        """A machine of one CPU."""
        ledger = self.ledger()
        if ledger is None:
            self.machines += 1
            return True
        known, name = book_of(ledger, now=BEGIN), f"{SOURCE}/kube-system/machine-{self.machines}"
        charge = Charge(key=name, uid=name, now=Takings({CPU: Quantity.of(1)}))
        after, said = book(known, charge, self.clock.now())
        if isinstance(said, Refusal):
            if may_be_granted(known, said):
                self._write(with_demand(known, wanted_by(known, [charge]), self.clock.now(), renewed=True))
            return False
        self._write(after)
        self.machines += 1
        self.fold()
        return True

    def fold(self) -> None:
        """Everything that was booked is there, and is counted."""
        ledger = self.ledger()
        if ledger is None:
            return
        known = book_of(ledger, now=BEGIN)
        view = max((one.view for one in known.observed.values()), default=0) + 1
        counted = {SOURCE: Observed(view, self.clock.now(), Takings({CPU: Quantity.of(self.machines)}))}
        self._write(
            Book.of(
                limits=known.limits,
                grants=known.grants,
                demand=known.demand,
                observed=counted,
                limited=known.limited,
                since=known.since,
                exact_from={SOURCE: 1},
                last=known.last,
            )
        )

    def say(self, **usage: str) -> None:
        """Whoever sums up the clusters of the seed writes that into the copy."""
        used = {"cpu": "0", "memory": "0", "storage": "0", **usage}
        self.edit(PROJECT_QUOTAS, NAME, merge={"status": {"localUsage": used}})


class MasterScene:
    def __init__(self, *seeds: str) -> None:
        self.clock = VirtualClock()
        self.api = Api("master", self.clock)
        self.seeds: dict[str, SeedCluster] = {}
        for seed in seeds or ("eu", "us"):
            self.add_seed(seed)
        self.api.put(PROJECTS, {"metadata": {"name": "abc"}})

    # --- what others do ---

    def make_seed(self, name: str) -> SeedCluster:
        return SeedCluster(name, self.clock)

    def add_seed(self, name: str, **reference: str) -> SeedCluster:
        made = self.seeds[name] = self.api.beside_of[f"{name}.example.com"] = self.make_seed(name)
        text = kubeconfig(cluster={"server": f"https://{name}.example.com"})
        where = {"name": f"kubeconfig-{name}", "namespace": SEED_NAMESPACE}
        self.api.put(SECRETS, {"metadata": where, "data": secret_data({"kubeconfig": text})})
        spec = {"kubeconfig": {**where, "fieldPath": "kubeconfig", **reference}}
        self.api.put(SEEDS, {"metadata": {"name": name, "namespace": SEED_NAMESPACE}, "spec": spec})
        return made

    def annotate_seed(self, name: str, **annotations: str | None) -> None:
        marks = {f"ullage.io/{mark}": value for mark, value in annotations.items()}
        self.api.edit(SEEDS, name, SEED_NAMESPACE, merge={"metadata": {"annotations": marks}})

    def remove_seed(self, name: str) -> None:
        self.api.remove(SEEDS, name, SEED_NAMESPACE)

    def set_quota(self, limits: Mapping[str, str | None] | None = None, *, name: str = NAME, **meta: Any) -> None:
        spec = {"subject": {"name": "abc", "kind": "project"}, "quota": dict(limits or {})}
        if self.api.body(PROJECT_QUOTAS, name) is None:
            self.api.put(PROJECT_QUOTAS, {"metadata": {"name": name, **meta}, "spec": spec})
        else:
            self.api.edit(PROJECT_QUOTAS, name, merge={"spec": spec})

    def set_default(self, limits: Mapping[str, str] | None) -> None:
        quota = None if limits is None else {"quota": dict(limits)}
        self.api.put(SETTINGS, {"metadata": {"name": "globalsettings"}, "spec": {"defaultQuota": quota} if quota else {}})

    # --- what has come of it ---

    def quota(self, name: str = NAME) -> Json | None:
        return self.api.body(PROJECT_QUOTAS, name)

    def meta(self) -> Json:
        found = self.quota()
        assert found is not None
        meta: Json = found["metadata"]
        return meta

    def status(self) -> Json:
        found = self.quota() or {}
        status: Json = found.get("status") or {}
        return status

    def condition(self, type: str) -> Json:
        found: Json = next((one for one in self.status().get("conditions", ()) if one["type"] == type), {})
        return found

    def record(self) -> Json:
        text = self.meta().get("annotations", {}).get(ESCROW)
        found: Json = {} if text is None else msgspec.json.decode(text)
        return found

    def limits(self) -> dict[str, str | None]:
        return {name: seed.limit() for name, seed in self.seeds.items()}

    def copies(self) -> dict[str, Json | None]:
        found = {name: seed.body(PROJECT_QUOTAS, NAME) for name, seed in self.seeds.items()}
        return {name: None if body is None else body["spec"]["quota"] for name, body in found.items()}

    def machines(self) -> int:
        return sum(seed.machines for seed in self.seeds.values())

    def events(self) -> list[tuple[str, str]]:
        return [(one["reason"], one["note"]) for one in self.api.bodies(EVENTS)]

    # --- the process ---

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Wiring]:
        """At the end of the block it is killed."""
        wiring = Wiring(self.api, instance="test", clock=self.clock)  # type: ignore[arg-type]
        part = Part(
            make=lambda wiring: make_controllers(wiring, Settings()),
            watches=WATCHES,
            secrets_in=(Settings().seed_namespace,),
            elsewhere=ELSEWHERE,
            events=True,
        )
        made = wiring.made(part)
        async with wiring.holding(asyncio.Event()), asyncio.TaskGroup() as group:
            tasks = [group.create_task(cache.run()) for cache in wiring.caches]
            tasks += [group.create_task(one.run()) for one in made]
            try:
                yield wiring
            finally:
                for task in tasks:
                    task.cancel()

    async def until(self, condition: Callable[[], bool], seconds: float = 60.0, *, every: float = 0.01) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not condition():  # noqa: ASYNC110  virtual time: it costs nothing
                    await asyncio.sleep(every)
        except TimeoutError:
            raise AssertionError(f"limits {self.limits()}, copies {self.copies()}, quota {self.quota()}") from None

    async def quiet(self, seconds: float = 5.0) -> None:
        """Long enough for whatever is still to come."""
        await asyncio.sleep(seconds)


class _Bugs(logging.Handler):
    """Controllers go on after a bug; a test about them does not."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self.found.append(logging.Formatter().format(record))


def bugs_fail(run: Callable[[], T]) -> T:
    bugs = _Bugs()
    logging.getLogger("ullage").addHandler(bugs)
    try:
        found = run()
    finally:
        logging.getLogger("ullage").removeHandler(bugs)
    assert not bugs.found, bugs.found[0]
    return found


def simulated(test: Callable[[MasterScene], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        await test(MasterScene())

    @functools.wraps(test)
    def wrapped() -> None:
        bugs_fail(lambda: in_virtual_time(run()))

    del wrapped.__wrapped__  # else pytest looks for a fixture called scene
    return wrapped
