"""Kinds that a restart no longer charges: their sums go, and not before it is certain that nothing counts on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.counted import counted
from tests.unit.ledger.simulated import BY_TEAM, CUPS, LEDGER, Cup, Server, creating, ledger
from ullage.kube.builtin.coordination import LEASES, Lease
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import NotFound, Unavailable
from ullage.kube.kinds import Kind, Meta
from ullage.kube.objects import find_condition
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.service import charging_leases, folder
from ullage.ledger.service.charging_leases import CHARGES, FORGOTTEN, LIVE, LOOK, RENEW, ChargingLease, LiveKinds, lease_name
from ullage.ledger.service.expiry import Settings, Sightings
from ullage.ledger.service.folder import Folder
from ullage.ledger.service.service import Service
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import KindView


class LeaseServer(Server):
    """With deletions."""

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "") -> None:
        self.drop(kind, Key(namespace, name))


JUGS = Kind("test.ullage.io", "v1", "Jug", "jugs", Cup)
BRIEF = Settings(request_timeout=5.0, expiry=7.0)


def lease(*kinds: Kind[Any], name: str = "other") -> Lease:
    charged = ",".join(kind.name for kind in kinds)
    meta = Meta(name=name, namespace=NAMESPACE, uid=f"uid-{name}", labels={CHARGES: "true"}, annotations={CHARGES: charged})
    return Lease(metadata=meta)


@asynccontextmanager
async def process(server: LeaseServer, *kinds: Kind[Cup], leads: bool = True, says: bool = True) -> AsyncIterator[Service]:
    """One that charges these kinds, and says so in a Lease."""
    clock = VirtualClock()
    caches = [Cache(server, kind, clock=clock, jitter=lambda: 0.5) for kind in kinds]
    sources = Sources(*(KindView(cache, BY_TEAM, client=server, clock=clock) for cache in caches))
    ledgers = Cache(server, LEDGERS, namespace=NAMESPACE, clock=clock, jitter=lambda: 0.5)
    live = LiveKinds(server, namespace=NAMESPACE, call=5.0, clock=clock)
    leader = Folder(server, sources, ledgers, settings=BRIEF, clock=clock, live_kinds=live)
    running = [cache.run() for cache in caches]
    running += [ledgers.run(), leader.controller().run()] if leads else []
    tasks = [asyncio.create_task(work) for work in running]
    if says:
        tasks.append(asyncio.create_task(renewed(server, *kinds)))
    for cache in caches:
        await cache.synced.wait()
    async with Service(server, sources, settings=BRIEF, clock=clock, jitter=lambda: 0.5) as service:
        yield service
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def renewed(server: LeaseServer, *kinds: Kind[Any]) -> None:
    name = f"of-{len(server.all(LEASES))}"
    while True:
        server.put(LEASES, lease(*kinds, name=name))
        await asyncio.sleep(2.5 * RENEW)  # seldom enough for bookmarks, which come when a watch is quiet


def run(test: Callable[[LeaseServer], Awaitable[None]]) -> None:
    async def main() -> None:
        server = LeaseServer()
        server.put(LEDGERS, ledger(100))
        await test(server)

    in_virtual_time(main())


def jug(server: LeaseServer, name: str, size: int) -> None:
    server.put(JUGS, replace(server.cup(name, 0), metadata=Meta(name=name, namespace="team", uid=f"jug-{name}"), spec=of(size)))


def of(size: int) -> Any:
    return replace(Cup().spec, size=size)


def sums(server: LeaseServer) -> Mapping[str, Any]:
    return counted(server.ledger().status.sums)


def ready(server: LeaseServer) -> tuple[str, str]:
    found = find_condition(server.ledger().status.conditions, "Ready")
    assert found is not None
    return found.reason, found.message


async def charged_before(server: LeaseServer) -> None:
    """85 in jugs were counted by a process that has ended."""
    jug(server, "jug", 85)
    async with process(server, CUPS, JUGS):
        await asyncio.sleep(30)
    assert sums(server)[JUGS.name] == {"cups": {"size": "85"}}
    assert ready(server)[0] == "Exact"


def test_what_no_process_charges_any_more_goes_and_until_then_the_ledger_says_so() -> None:
    async def test(server: LeaseServer) -> None:
        await charged_before(server)
        async with process(server, CUPS) as service:
            while ready(server)[0] != "NotCounted":  # noqa: ASYNC110  the server of the tests tells nothing
                await asyncio.sleep(1)
            assert sums(server)[JUGS.name] == {"cups": {"size": "85"}}
            assert "charged by no process now: jugs.test.ullage.io (85 size)" in ready(server)[1]
            assert not (await service.decide(LEDGER, creating("large", 90))).allowed
            assert (await service.decide(LEDGER, creating("small", 1))).allowed
            assert ready(server)[0] == "NotCounted", "who does not know leaves it as it is"
            await asyncio.sleep(60)
            assert JUGS.name not in sums(server)
            assert ready(server)[0] == "Exact"
            assert (await service.decide(LEDGER, creating("large", 90))).allowed

    run(test)


async def time_until_gone(server: LeaseServer) -> float:
    """Seconds for which 85 stay, that a process charges whose Lease is not renewed any more."""
    await charged_before(server)
    async with process(server, CUPS):
        began = asyncio.get_running_loop().time()
        while JUGS.name in sums(server):  # noqa: ASYNC110  the server of the tests tells nothing
            await asyncio.sleep(0.5)
        return asyncio.get_running_loop().time() - began


def test_it_stays_for_as_long_as_a_booking_takes_to_expire_after_its_process_may_have_lived() -> None:
    times: list[float] = []

    async def test(server: LeaseServer) -> None:
        times.append(await time_until_gone(server))

    run(test)
    assert LIVE + BRIEF.expiry - LOOK <= times[0] <= LIVE + BRIEF.expiry + 30
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LiveKinds, "idle", lambda self, kind: 1e9)
        patch.setattr(Sightings, "older", lambda self, there, now, *, than: list(there))
        run(test)
    assert times[1] < LIVE + BRIEF.expiry - LOOK, "without that rule it goes at once"


def test_what_a_live_process_charges_stays() -> None:
    """A mixed rollout: a replica of before is there yet."""

    async def test(server: LeaseServer) -> None:
        await charged_before(server)
        async with process(server, CUPS, JUGS, leads=False), process(server, CUPS):
            for _ in range(300):
                await asyncio.sleep(1)
                assert sums(server)[JUGS.name] == {"cups": {"size": "85"}}
            assert ready(server)[0] == "Exact"

    run(test)


def test_what_a_process_counts_that_says_nothing_in_leases_stays_while_it_does() -> None:
    """One of a release before this."""

    async def test(server: LeaseServer) -> None:
        await charged_before(server)
        async with process(server, CUPS, JUGS, leads=False, says=False) as old, process(server, CUPS):
            for number in range(100):
                await old.decide(LEDGER, creating(f"cup-{number}", 0 + (number % 2)))
                server.cup(f"cup-{number}", number % 2)
                jug(server, "jug", 5 + number % 2)
                await asyncio.sleep(1.5)
                assert JUGS.name in sums(server)

    run(test)


def test_what_is_charged_again_is_counted_anew() -> None:
    async def test(server: LeaseServer) -> None:
        await charged_before(server)
        async with process(server, CUPS):
            await asyncio.sleep(120)
            assert JUGS.name not in sums(server)
        async with process(server, CUPS, JUGS) as service:
            await asyncio.sleep(30)
            assert sums(server)[JUGS.name] == {"cups": {"size": "85"}}
            assert not (await service.decide(LEDGER, creating("large", 90))).allowed

    run(test)


def test_nothing_goes_while_what_live_processes_charge_cannot_be_read() -> None:
    async def test(server: LeaseServer) -> None:
        await charged_before(server)
        plain = server.list

        async def list_(kind: Kind[Any], *rest: Any, **more: Any) -> Any:
            if kind is LEASES:
                raise Unavailable("no rights")
            return await plain(kind, *rest, **more)

        server.list = list_  # type: ignore[method-assign]
        async with process(server, CUPS):
            await asyncio.sleep(300)
            assert sums(server)[JUGS.name] == {"cups": {"size": "85"}}

    run(test)


def test_nothing_goes_before_what_may_pay_in_its_place_was_counted() -> None:
    """A cup is made in the place of the jug, and the watch of cups lags behind: what is used is never shown too low."""

    async def test(server: LeaseServer) -> None:
        await played(server)
        assert min(used) >= 85

    used: list[int] = []

    async def played(server: LeaseServer) -> None:
        await charged_before(server)
        async with process(server, CUPS):
            await asyncio.sleep(LIVE + 5)
            server.watch_lag = lambda: 40.0
            server.cup("in-its-place", 85)
            server.committed = lambda: used.append(sum(int(one["cups"]["size"]) for one in sums(server).values() if one))
            await asyncio.sleep(200)
            assert JUGS.name not in sums(server)

    run(test)
    used.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder.Folder, "_has_counted", lambda *_: True)
        run(played)
    assert min(used) < 85, "without that rule it would be"


def test_what_a_live_process_charges_would_go_if_its_lease_said_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charging_leases, "kinds_in", lambda lease: [])

    async def test(server: LeaseServer) -> None:
        await charged_before(server)
        async with process(server, CUPS, JUGS, leads=False), process(server, CUPS):
            gone = 0
            for _ in range(120):
                await asyncio.sleep(1)
                gone += JUGS.name not in sums(server)
            assert gone

    run(test)


# --- the Lease -------------------------------------------------------------------------------------------------------


class Leases:
    """As much of an API server as a Lease needs."""

    def __init__(self) -> None:
        self.found: Lease | None = None
        self.calls: list[str] = []
        self.away = False

    async def create(self, kind: Kind[Lease], obj: Lease) -> Lease:
        self.calls.append("create")
        self.found = obj
        return obj

    async def patch(
        self, kind: Kind[Lease], name: str, namespace: str = "", *, merge: Mapping[str, Any] | None = None
    ) -> Lease:
        self.calls.append("patch")
        if self.away:
            raise Unavailable("no connection")
        if self.found is None:
            raise NotFound("no such lease", code=404)
        assert merge is not None
        self.found = replace(self.found, metadata=replace(self.found.metadata, annotations=merge["metadata"]["annotations"]))
        return self.found

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "") -> None:
        self.calls.append("delete")
        self.found = None


def test_a_process_says_what_it_charges_renews_that_and_takes_it_away() -> None:
    async def test() -> None:
        api, kinds = Leases(), ["b", "a"]
        one = ChargingLease(api, lambda: kinds, instance="host_1B2-c", namespace=NAMESPACE, call=1.0, clock=VirtualClock())
        async with one:
            await asyncio.sleep(1)
            assert api.found is not None
            assert (api.found.metadata.name, api.found.metadata.labels) == ("ullage-charges-1b2-c", {CHARGES: "true"})
            assert api.found.metadata.annotations == {CHARGES: "a,b"}
            assert api.found.spec.holder_identity == "host_1B2-c"
            kinds.append("c")
            api.away = True
            await asyncio.sleep(RENEW)
            api.away = False
            await asyncio.sleep(RENEW)
            assert api.found.metadata.annotations == {CHARGES: "a,b,c"}
        assert api.found is None
        assert api.calls == ["patch", "create", "patch", "patch", "delete"]

    in_virtual_time(test())


def test_the_lease_of_a_process_has_a_name_that_an_api_server_takes() -> None:
    assert lease_name("Some.Host_name_6F1A") == "ullage-charges-6f1a"
    assert lease_name("plain") == "ullage-charges-plain"


def test_leases_that_are_not_renewed_are_of_processes_that_are_gone_and_are_deleted_later() -> None:
    async def test(server: LeaseServer) -> None:
        server.put(LEASES, lease(JUGS))
        live = LiveKinds(server, namespace=NAMESPACE, call=1.0, clock=VirtualClock())
        assert live.idle(JUGS.name) == 0.0
        began = asyncio.get_running_loop().time()
        charged_until = 0.0
        while (now := asyncio.get_running_loop().time() - began) < FORGOTTEN + 20:
            assert await live.look()
            charged_until = now if live.charged(JUGS.name) else charged_until
            assert bool(server.all(LEASES)) == (now <= FORGOTTEN)
            await asyncio.sleep(6)
        assert LIVE - 10 < charged_until <= LIVE + 1
        assert FORGOTTEN - LIVE - 20 < live.idle(JUGS.name) < FORGOTTEN
        await asyncio.sleep(100)  # nothing is known of that time
        await live.look()
        assert live.idle(JUGS.name) == 0.0

    run(test)
