"""Ledgers that are counted in several clusters: which come and go, are cut off and come back, and are removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.counted import counted
from tests.unit.ledger.simulated import BY_TEAM, CUPS, LEDGER, Server, creating, cup_key, ledger
from ullage.errors import Retryable
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.kube.objects import find_condition
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.keys import key_of
from ullage.ledger.packing.pending import decode
from ullage.ledger.service.expiry import Settings
from ullage.ledger.service.folder import Folder
from ullage.ledger.service.service import Service
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import KindView

BRIEF = Settings(request_timeout=5.0, expiry=7.0, expiry_elsewhere=7.0, call=1.0)
FAR = f"{CUPS.name}/far"
OTHER = "ns-other"
COUNTED = "everything is counted"


class Process:
    """A leader, or a webhook, with the ledgers in one cluster and cups in others."""

    def __init__(self, scene: Scene, *, leads: bool = True) -> None:
        self.clock = VirtualClock()
        self.sources = Sources()
        self.sources.count_elsewhere(CUPS.name, scene.removed, complete=lambda: scene.complete, asks=scene.asks)
        self._ledgers = Cache(scene.home, LEDGERS, namespace=NAMESPACE, clock=self.clock, jitter=lambda: 0.5)
        folder = Folder(scene.home, self.sources, self._ledgers, settings=BRIEF, clock=self.clock)
        works = [self._ledgers.run(), *([folder.controller().run()] if leads else [])]
        self._tasks = [asyncio.create_task(work) for work in works]
        self.service = Service(scene.home, self.sources, settings=BRIEF, clock=self.clock, jitter=lambda: 0.5)

    def follow(self, cluster: str, server: Server) -> None:
        cache = Cache(server, CUPS, clock=self.clock, jitter=lambda: 0.5)
        self._tasks.append(asyncio.create_task(cache.run()))
        self.sources.add(KindView(cache, BY_TEAM, client=server, cluster=cluster, clock=self.clock))

    async def die(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.service.__aexit__()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Scene:
    def __init__(self) -> None:
        self.home, self.far = Server(), Server()
        self.home.put(LEDGERS, ledger(10))
        self.home.put(LEDGERS, replace(ledger(10), metadata=Meta(name=OTHER, namespace=NAMESPACE)))
        self.complete = True
        self.gone: set[str] = set()
        self.silent = False
        self.registered: bool | None = True  # in the far cluster; None: nobody can say
        self.processes: list[Process] = []

    async def removed(self, cluster: str) -> bool:
        await asyncio.sleep(0.01)
        if self.silent:
            raise Retryable("nobody is there to say")
        return cluster in self.gone

    async def asks(self, cluster: str) -> bool:
        await asyncio.sleep(0.01)
        if self.registered is None:
            raise Retryable("nobody is there to say")
        return self.registered

    def start(self, *, leads: bool = True) -> Process:
        self.processes.append(Process(self, leads=leads))
        return self.processes[-1]

    async def admit(self, process: Process, name: str, size: int, *, cluster: str = "far") -> bool:
        """Asks, and makes it where it fits."""
        if not (await process.service.decide(LEDGER, creating(name, size, cluster=cluster))).allowed:
            return False
        self.far.cup(name, size)
        return True

    def says(self, name: str = LEDGER) -> str:
        ready = find_condition(self.home.get(LEDGERS, Key(NAMESPACE, name)).status.conditions, "Ready")
        return ready.message if ready else ""

    def counted(self, source: str = FAR) -> str | None:
        found = counted(self.home.ledger().status.sums).get(source)
        return None if found is None else found.get("cups", {}).get("size", "0")

    def pending(self) -> list[str]:
        return sorted(decode(self.home.ledger().status.pending, ledger=LEDGER))


def scene(test: Callable[[Scene], Awaitable[None]]) -> Any:
    def run() -> None:
        async def main() -> None:
            found = Scene()
            await test(found)
            for process in found.processes:
                await process.die()

        in_virtual_time(main())

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


def joined(found: Scene, process: Process) -> None:
    process.sources.place("far", [LEDGER])
    process.follow("far", found.far)


@scene
async def test_a_ledger_waits_for_a_cluster_that_was_added_until_it_is_counted_exactly(found: Scene) -> None:
    leader = found.start()
    await asyncio.sleep(20)
    assert found.says() == COUNTED
    found.far.cup("a", 3)
    joined(found, leader)
    await asyncio.sleep(3)
    assert found.says().endswith(f"have ended that began before {found.home.ledger().status.since[:19]}Z: {FAR}")
    assert found.counted() == "3", "what is known counts at once"
    await asyncio.sleep(20)
    assert (found.says(), found.counted()) == (COUNTED, "3")


@scene
async def test_a_cluster_that_cannot_be_reached_keeps_no_ledger_waiting_that_has_nothing_there(found: Scene) -> None:
    leader = found.start()
    found.far.cut_off()
    joined(found, leader)
    await asyncio.sleep(60)
    assert FAR in found.says()
    assert found.says(OTHER) == COUNTED


@scene
async def test_credentials_that_cannot_be_read_do_not_make_a_cluster_count_as_empty(found: Scene) -> None:
    leader = found.start()
    leader.sources.place("far", [LEDGER])
    await asyncio.sleep(60)
    assert FAR in found.says()
    assert found.counted() is None


@scene
async def test_no_count_is_exact_while_requests_of_a_cluster_are_not_asked_about(found: Scene) -> None:
    leader = found.start()
    leader.sources.place("far", [LEDGER], asked=False)
    leader.follow("far", found.far)
    await asyncio.sleep(60)
    assert FAR in found.says()
    leader.sources.place("far", [LEDGER])
    await asyncio.sleep(4)
    assert FAR in found.says(), "requests of before may still be on their way"
    await asyncio.sleep(20)
    assert found.says() == COUNTED
    leader.sources.place("far", [LEDGER], asked=False)
    await asyncio.sleep(4)
    assert FAR in found.says(), "somebody took the webhook away"


@pytest.mark.parametrize("before", [False, None])
def test_no_count_is_exact_that_began_before_a_cluster_was_told_to_ask(before: bool | None) -> None:
    async def told_late(found: Scene) -> None:
        found.registered = before
        leader = found.start()
        joined(found, leader)
        await asyncio.sleep(60)
        assert FAR in found.says()
        found.registered = True
        await asyncio.sleep(4)
        assert FAR in found.says(), "requests of before may still be on their way"
        await asyncio.sleep(20)
        assert found.says() == COUNTED

    scene(told_late)()


@scene
async def test_whether_a_cluster_asks_is_not_looked_at_again_by_whoever_leads_next(found: Scene) -> None:
    leader = found.start()
    joined(found, leader)
    await asyncio.sleep(30)
    assert found.says() == COUNTED
    await leader.die()
    found.registered = False  # what somebody takes out is put back, and told elsewhere
    joined(found, found.start())
    for _ in range(30):
        await asyncio.sleep(1)
        assert found.says() == COUNTED


@scene
async def test_whoever_has_not_heard_of_a_cluster_does_not_call_a_ledger_exact_that_waits_for_it(found: Scene) -> None:
    leader, behind = found.start(), found.start(leads=False)
    leader.sources.place("far", [LEDGER])
    await asyncio.sleep(20)
    behind.follow("near", found.far)
    await behind.service.decide(LEDGER, creating("b", 1, cluster="near"))
    assert FAR in found.says()


@scene
async def test_what_was_counted_stays_while_a_cluster_is_cut_off_and_admissions_go_on_exact(found: Scene) -> None:
    leader = found.start()
    joined(found, leader)
    assert await found.admit(leader, "a", 6)
    await asyncio.sleep(20)
    assert (found.says(), found.counted(), found.pending()) == (COUNTED, "6", [])
    found.far.cut_off()
    assert await found.admit(leader, "b", 3), "its own API server still asks"
    assert not await found.admit(leader, "c", 2)
    await asyncio.sleep(600)
    assert (found.says(), found.counted(), found.pending()) == (COUNTED, "6", [cup_key("b", cluster="far")])
    found.far.drop(CUPS, Key("team", "a"))
    found.far.come_back()
    await asyncio.sleep(60)
    assert (found.says(), found.counted(), found.pending()) == (COUNTED, "3", [])


@scene
async def test_a_cluster_that_was_removed_on_purpose_is_dropped_with_what_is_on_its_way_there(found: Scene) -> None:
    leader = found.start()
    joined(found, leader)
    assert await found.admit(leader, "a", 6)
    await asyncio.sleep(20)
    await leader.service.decide(LEDGER, creating("lost", 2, cluster="far"))
    found.gone.add("far")
    leader.sources.displace("far")
    leader.sources.drop(FAR)
    await asyncio.sleep(5)
    status = found.home.ledger().status
    assert (found.says(), found.counted(), found.pending(), status.exact_from) == (COUNTED, None, [], {})


@pytest.mark.parametrize("silent", [pytest.param(False, id="nobody has removed it"), pytest.param(True, id="nobody can tell")])
def test_a_cluster_is_not_dropped_because_a_process_does_not_know_it(silent: bool) -> None:
    async def main() -> None:
        found = Scene()
        first = found.start()
        joined(found, first)
        assert await found.admit(first, "a", 6)
        await asyncio.sleep(20)
        await first.die()
        found.silent = silent
        next_one = found.start()
        await asyncio.sleep(60)
        assert found.counted() == "6"
        assert not await found.admit(next_one, "b", 5)
        await next_one.die()

    in_virtual_time(main())


@scene
async def test_whether_a_cluster_was_removed_is_asked_until_somebody_can_tell(found: Scene) -> None:
    leader = found.start()
    joined(found, leader)
    assert await found.admit(leader, "a", 6)
    await asyncio.sleep(20)
    found.gone.add("far")
    found.silent = True
    leader.sources.displace("far")
    leader.sources.drop(FAR)
    await asyncio.sleep(60)
    assert found.counted() == "6"
    found.silent = False
    await asyncio.sleep(20)
    assert found.counted() is None


@scene
async def test_what_somebody_who_was_held_up_writes_back_is_dropped_again_and_only_ever_too_much(found: Scene) -> None:
    leader, stalled = found.start(), found.start(leads=False)
    joined(found, leader)
    joined(found, stalled)
    assert await found.admit(stalled, "a", 6)
    await asyncio.sleep(20)
    found.gone.add("far")
    leader.sources.displace("far")
    leader.sources.drop(FAR)
    await asyncio.sleep(5)
    assert found.counted() is None
    await stalled.service.decide(LEDGER, creating("b", 1, cluster="far"))
    assert found.counted() == "6", "it follows the cluster as if nothing had been"
    await leader.die()
    found.start()
    await asyncio.sleep(5)
    assert (found.counted(), found.pending()) == (None, []), "the next leader has never heard of it"


@scene
async def test_a_cluster_that_comes_again_with_other_data_is_counted_from_its_own_positions(found: Scene) -> None:
    leader = found.start()
    for number in range(50):  # far ahead of the one that comes
        found.far.cup(f"old-{number}", 0)
    joined(found, leader)
    assert await found.admit(leader, "a", 6)
    await asyncio.sleep(20)
    before = found.home.ledger().status.observed[FAR].view
    found.gone.add("far")
    leader.sources.displace("far")
    leader.sources.drop(FAR)
    await asyncio.sleep(5)
    found.gone.clear()
    found.far = Server()
    found.far.cup("a", 2)
    joined(found, leader)
    await asyncio.sleep(3)
    assert FAR in found.says()
    assert await found.admit(leader, "b", 8), "what was there before takes nothing any more"
    assert not await found.admit(leader, "c", 1)
    await asyncio.sleep(30)
    assert (found.says(), found.counted(), found.pending()) == (COUNTED, "10", [])
    assert found.home.ledger().status.observed[FAR].view < before


@scene
async def test_a_kubeconfig_that_suddenly_names_another_cluster_is_noticed_like_a_backup(found: Scene) -> None:
    leader = found.start()
    for number in range(50):  # far ahead of the other one
        found.far.cup(f"old-{number}", 0)
    joined(found, leader)
    assert await found.admit(leader, "a", 6)
    await asyncio.sleep(20)
    leader.sources.drop(FAR)
    found.far = Server()
    leader.follow("far", found.far)
    assert await found.admit(leader, "b", 3), "what was counted stays until the other is"
    assert not await found.admit(leader, "c", 2)
    await asyncio.sleep(60)
    assert (found.says(), found.counted(), found.pending()) == (COUNTED, "3", [])


@scene
async def test_an_answer_of_before_does_not_drop_a_cluster_that_has_come_again(found: Scene) -> None:
    """It was removed when somebody asked; when the answer is there, it is back, and another process has counted it."""
    leader, other = found.start(), found.start(leads=False)
    joined(found, leader)
    assert await found.admit(leader, "a", 6)
    await asyncio.sleep(20)
    answer = asyncio.Event()

    async def late(cluster: str) -> bool:
        await answer.wait()
        return True

    leader.sources.count_elsewhere(CUPS.name, late, complete=lambda: True)
    leader.sources.displace("far")
    leader.sources.drop(FAR)
    await asyncio.sleep(0.5)
    joined(found, other)
    await asyncio.sleep(0.2)
    assert await found.admit(other, "b", 3)
    leader.sources.count_elsewhere(CUPS.name, found.removed, complete=lambda: True)
    answer.set()
    await asyncio.sleep(60)
    assert (found.counted(), found.pending()) == ("6", [cup_key("b", cluster="far")])
    assert not await found.admit(other, "c", 2)


@scene
async def test_nothing_is_said_before_all_clusters_are_known_that_there_are(found: Scene) -> None:
    found.complete = False
    found.start()
    await asyncio.sleep(60)
    assert found.says() == ""
    found.complete = True
    await asyncio.sleep(30)
    assert found.says() == COUNTED


def test_two_views_of_one_kind_are_refused() -> None:
    async def main() -> None:
        views = [KindView(Cache(Server(), CUPS), BY_TEAM, client=Server()) for _ in range(2)]
        with pytest.raises(ValueError, match=f"{CUPS.name}: two views of one kind"):
            Sources(*views)

    in_virtual_time(main())


def test_a_ledger_needs_what_it_was_said_to_have_objects_in() -> None:
    async def nobody(cluster: str) -> bool:
        return False

    sources = Sources()
    sources.count_elsewhere("cups.example.com", nobody, complete=lambda: True)
    sources.place("a", ["x", "y"])
    sources.place("b", ["y"])
    assert sources.needed("y") == {"cups.example.com/a", "cups.example.com/b"}
    sources.place("a", ["x"])
    assert [sorted(sources.needed(name)) for name in ("x", "y")] == [["cups.example.com/a"], ["cups.example.com/b"]]
    sources.displace("b")
    assert sources.needed("y") == frozenset()
    assert key_of("cups.example.com", cluster="a", namespace="n", name="m") == "cups.example.com/a/n/m"
