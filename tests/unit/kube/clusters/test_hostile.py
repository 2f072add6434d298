"""A user cluster whose administrator means harm: what his API server sends costs so much and no more, it is told that his
cluster cannot be read, and the others are read as ever."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.kube.client.scripted import Seen
from tests.unit.kube.clusters.hostile import (
    SMALL,
    UserClusterServer,
    begin,
    event,
    machine,
    names,
    page,
    piece,
    reply,
    until,
)
from ullage.kube.read_limits import KIB, object_weight
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MACHINE_SETS, MACHINES
from ullage.projects.api.templates import DEPLOYMENT_TEMPLATES, SET_TEMPLATES
from ullage.projects.machines.reading import REVISION
from ullage.projects.machines.texts import ENFORCE_EARLY
from ullage.projects.machines.updates import GUARDED

Writer = asyncio.StreamWriter
Attack = Callable[[UserClusterServer, Seen, Writer], Awaitable[bool]]


async def endless_line(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
    if "watch" not in seen.query:
        return False
    await begin(writer)
    await piece(writer, b'{"type":"ADDED","object":{"metadata":{"name":"')
    while True:
        await piece(writer, b"a" * 4096)
        await asyncio.sleep(0)


async def endless_initial_events(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
    if "watch" not in seen.query:
        return False
    await begin(writer)
    for number in range(1_000_000):
        await event(writer, "ADDED", machine(f"m-{number}"))
        await asyncio.sleep(0)
    return True


async def endless_pages(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
    if "watch" in seen.query:
        return False
    await reply(writer, page([], more=f"{len(server.requests)}"))
    return True


async def one_object_on_every_page(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
    if "watch" in seen.query:
        return False
    await reply(writer, page([machine("same", note="n" * 15_000)] * 5, more="on"))
    return True


async def endless_page(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
    if "watch" in seen.query:
        return False
    await begin(writer)
    while True:
        await piece(writer, b" " * 4096)
        await asyncio.sleep(0)


async def trickle(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
    if "watch" in seen.query:
        return False
    await begin(writer)
    while True:
        await piece(writer, b" ")
        await asyncio.sleep(0.05)


async def dense_event(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
    if "watch" not in seen.query:
        return False
    await begin(writer)
    await event(writer, "ADDED", machine("dense", lists=[[]] * 5000))
    return True


async def long_name(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
    if "watch" not in seen.query:
        return False
    await begin(writer)
    await event(writer, "ADDED", machine("n" * 600))
    return True


async def packed(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
    await reply(writer, gzip.compress(b" " * 10_000_000), Content_Encoding="gzip")
    return True


async def long_error(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
    await reply(writer, {"kind": "Status", "code": 403, "message": "m" * 1_000_000}, code=403)
    return True


async def long_end(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
    if "watch" not in seen.query:
        return False
    await begin(writer)
    await event(writer, "ERROR", {"kind": "Status", "code": 500, "message": "m" * 18_000})
    return True


@pytest.mark.parametrize(
    ("attack", "streams", "said"),
    [
        pytest.param(endless_line, True, "an event has more than 20 KiB", id="a line that never ends"),
        pytest.param(endless_initial_events, True, "and 200 KiB are allowed", id="objects without end, as events"),
        pytest.param(endless_pages, False, "the list has more than 20 pages", id="empty pages without end"),
        pytest.param(one_object_on_every_page, False, "and 200 KiB are allowed", id="one object, on every page"),
        pytest.param(endless_page, False, "an answer has more than 100 KiB", id="a page that never ends"),
        pytest.param(trickle, False, "not all of them have come within 0.5 s", id="a page that comes byte by byte"),
        pytest.param(dense_event, True, "would take ", id="a small text that is large once it is decoded"),
        pytest.param(long_name, True, "metadata.name: it has 600 characters, more than 253", id="a name without end"),
        pytest.param(packed, True, "the answer is packed, and was not to be", id="a small answer that unpacks to a large one"),
    ],
)
async def test_an_attack_ends_in_trouble_that_names_the_cluster(attack: Attack, streams: bool, said: str) -> None:
    bad, good = UserClusterServer(attack, streams=streams), UserClusterServer()
    await good.put("one")
    limits = replace(SMALL, seconds=0.5) if attack is trickle else SMALL
    async with bad.followed("bad", limits) as attacked, good.followed("good") as other:
        most = 0

        def troubled() -> bool:
            nonlocal most
            budget = attacked._budget
            assert budget is not None
            most = max(most, budget.counted)
            return said in attacked.reach.error

        await until(troubled)
        assert f"{MACHINES.name}: cluster bad: " in attacked.reach.error
        assert not attacked.reach.reachable
        assert most <= SMALL.held, "no more was ever counted than is allowed"
        assert attacked.held == 0
        await good.put("two")
        await until(lambda: names(other) == ["one", "two"])
        assert other.reach.reachable


@pytest.mark.parametrize("attack", [long_error, long_end])
async def test_of_an_error_only_so_much_is_kept(attack: Attack) -> None:
    async with UserClusterServer(attack).followed() as cluster:
        cache = cluster.cache(MACHINES)
        await until(lambda: cache.error is not None)
        assert len(str(cache.error)) <= 8192


async def filled(server: UserClusterServer, *, objects: int, note: int) -> None:
    for number in range(objects):
        await server.put(f"m-{number}", note="n" * note)


@pytest.mark.parametrize("streams", [pytest.param(True, id="as events"), pytest.param(False, id="in pages")])
async def test_a_cluster_that_is_too_large_is_told_and_read_once_it_has_shrunk(streams: bool) -> None:
    server = UserClusterServer(streams=streams)
    await filled(server, objects=20, note=10_000)
    async with server.followed() as cluster:
        cache = cluster.cache(MACHINES)
        await until(lambda: "are allowed" in cluster.reach.error)
        assert (cache.synced.is_set(), len(cache), cluster.held) == (False, 0, 0)
        for number in range(10):
            await server.delete(f"m-{number}")
        await until(lambda: cluster.reach.reachable)
        assert names(cluster) == sorted(f"m-{number}" for number in range(10, 20))
        assert cluster.held == sum(object_weight(one) for one in cache.items())


async def test_one_that_grows_too_large_stays_as_it_was_and_is_not_called_current() -> None:
    server = UserClusterServer()
    await filled(server, objects=8, note=10_000)
    async with server.followed() as cluster:
        cache = cluster.cache(MACHINES)
        await until(lambda: cluster.reach.reachable)
        session, before = cache.session, names(cluster)
        for number in range(8, 20):
            await server.put(f"m-{number}", note="n" * 10_000)
        await until(lambda: not cluster.reach.reachable)
        for _ in range(20):  # it is tried again and again, and is never taken for current meanwhile
            await asyncio.sleep(0.02)
            assert cache.doubtful
            assert not cluster.reach.reachable
            assert cluster.held <= SMALL.held
        assert cache.session == session + 1
        held = names(cluster)
        assert set(before) <= set(held) < set(server.machines)
        for number in range(4, 20):
            await server.delete(f"m-{number}")
        await until(lambda: cluster.reach.reachable)
        assert (names(cluster), cache.doubtful) == ([f"m-{number}" for number in range(4)], False)


async def test_all_kinds_of_a_cluster_share_one_budget() -> None:
    server = UserClusterServer()
    await filled(server, objects=10, note=10_000)

    async def sets(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
        if not seen.path.endswith("/machinesets") or "watch" in seen.query:
            return seen.path.endswith("/machinesets") and not await _refuse(writer)
        found = []
        for number in range(10):
            one = machine(f"s-{number}")
            found.append({"metadata": one["metadata"], "spec": {"template": {"spec": machine("", note="n" * 5_000)["spec"]}}})
        await reply(writer, page(found))
        return True

    server.answers = sets
    async with server.followed() as cluster:
        await until(lambda: cluster.reach.reachable)
        room = SMALL.held - cluster.held
        cluster.cache(MACHINE_SETS)
        await until(lambda: "are allowed" in cluster.reach.error)
        assert room > 0
        assert f"{MACHINE_SETS.name}: cluster bad: " in cluster.reach.error
        assert (len(cluster.cache(MACHINES)), cluster.cache(MACHINES).error) == (10, None)
        for number in range(6):
            await server.delete(f"m-{number}")
        await until(lambda: len(cluster.cache(MACHINE_SETS)) == 10)


async def _refuse(writer: Writer) -> bool:
    await reply(writer, {"kind": "Status", "code": 400, "message": "unknown option"}, code=400)
    return False


async def test_objects_that_come_and_go_are_weighed_as_often() -> None:
    server = UserClusterServer()
    async with server.followed() as cluster:
        cache = cluster.cache(MACHINES)
        await until(lambda: cluster.reach.reachable)
        for turn in range(1, 60):
            await server.put("one", note="n" * (turn * 100))
            await server.put(f"t-{turn}", note="n" * 8_000)
            await server.delete(f"t-{turn}")
        await until(lambda: cache.position() == server.version)
        assert cluster.held == sum(object_weight(one) for one in cache.items()) < 30 * KIB
        assert cluster.reach.reachable


async def test_large_objects_are_read_in_smaller_pages() -> None:
    server = UserClusterServer(streams=False)
    await filled(server, objects=9, note=15_000)
    async with server.followed(limits=replace(SMALL, held=1000 * KIB)) as cluster:
        await until(lambda: cluster.reach.reachable)
        assert len(names(cluster)) == 9
        assert {one.query["limit"] for one in server.requests if "limit" in one.query} == {"200", "4"}


FLOOD = b"".join(
    json.dumps({"type": "MODIFIED", "object": machine("busy", version=version)}).encode() + b"\n" for version in range(2, 1000)
)


async def flood(server: UserClusterServer, seen: Seen, writer: Writer) -> bool:
    """One Machine that changes all the time."""
    if "watch" not in seen.query:
        return False
    await begin(writer)
    ends = {"k8s.io/initial-events-end": "true"}
    await event(writer, "BOOKMARK", {"metadata": {"resourceVersion": "1", "annotations": ends}})
    while True:
        await piece(writer, FLOOD)
        await asyncio.sleep(0)


async def test_a_flood_of_events_is_read_no_faster_than_its_rate_and_others_are_read_meanwhile() -> None:
    bad, good = UserClusterServer(flood), UserClusterServer()
    slow = replace(SMALL, rate=100 * KIB, burst=20 * KIB, each=2 * KIB)
    counted: list[Any] = []

    async with bad.followed("bad", slow) as flooded, good.followed("good") as other:
        flooded.cache(MACHINES).handle(lambda old, new: counted.append(new))
        await until(lambda: flooded.cache(MACHINES).synced.is_set() and other.reach.reachable)
        began, loop = asyncio.get_running_loop().time(), asyncio.get_running_loop()
        for number in range(10):
            await good.put(f"g-{number}")
            await until(lambda number=number: len(names(other)) == number + 1)  # type: ignore[misc]
        await asyncio.sleep(max(0.0, began + 0.5 - loop.time()))
        lasted = loop.time() - began
        assert 5 <= len(counted) <= (slow.burst + slow.rate * (lasted + 1)) / slow.each


async def test_a_flood_that_lasts_is_told_and_everything_is_read_anew() -> None:
    bad = UserClusterServer(flood)
    slow = replace(SMALL, rate=100 * KIB, burst=20 * KIB, each=2 * KIB, behind=0.2)
    async with bad.followed("bad", slow) as flooded:
        cache = flooded.cache(MACHINES)
        await until(lambda: "s more has changed than 100 KiB a second, which are read" in flooded.reach.error)
        assert "cluster bad: " in flooded.reach.error
        assert cache.doubtful
        begun = cache.readings
        await until(lambda: cache.readings > begun)


async def test_a_flood_of_events_has_no_answer_wait() -> None:
    bad = UserClusterServer(flood)
    async with bad.followed("bad", replace(SMALL, rate=KIB, burst=KIB, each=2 * KIB)) as flooded:
        await until(lambda: flooded.client.late > 0.1)
        async with asyncio.timeout(5.0):
            assert await flooded.client.latest(MACHINE_SETS) == "1"


async def test_what_is_held_and_what_may_be_is_measured() -> None:
    server = UserClusterServer()
    await server.put("one")
    async with server.followed("far") as cluster:
        await until(lambda: cluster.reach.reachable)
        assert cluster._metrics is not None
        registry = cluster._metrics.registry
        assert registry.get_sample_value("ullage_cluster_held_bytes", {"cluster": "far"}) == cluster.held > 0
        assert registry.get_sample_value("ullage_cluster_held_limit_bytes", {"cluster": "far"}) == SMALL.held
        assert registry.get_sample_value("ullage_cluster_current", {"cluster": "far"}) == 1
        await server.put("two", note="n" * 19_000, other="m" * 19_000)
        await until(lambda: registry.get_sample_value("ullage_cluster_current", {"cluster": "far"}) == 0)
    assert registry.get_sample_value("ullage_cluster_held_bytes", {"cluster": "far"}) is None


@pytest.mark.parametrize("again", [pytest.param(False, id="first"), pytest.param(True, id="once more")])
async def test_others_have_turns_while_a_large_cluster_is_taken_over_and_it_is_not_called_current_meanwhile(
    again: bool,
) -> None:
    server = UserClusterServer(streams=False)
    await filled(server, objects=100, note=10)
    turns, seen = 0, []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with server.followed(limits=replace(SMALL, held=2000 * KIB)) as cluster:
        cache = cluster.cache(MACHINES)
        if again:
            await until(lambda: cluster.reach.reachable)
            for number in range(100):
                server.machines[f"m-{number}"] = machine(f"m-{number}", note="other", version=server.version)
        cache.handle(lambda old, new: seen.append((turns, cache.doubtful)) if old is None or again else None)
        seen.clear()
        working = asyncio.create_task(others())
        reading = cache.renew()
        await until(lambda: cache.readings >= reading)
        working.cancel()
        assert len(seen) == 100
        assert seen[-1][0] - seen[0][0] >= 10, "others had a turn now and then"
        assert all(doubtful for _, doubtful in seen)
        await until(lambda: cluster.reach.reachable and not cache.doubtful)


@pytest.mark.parametrize("streams", [pytest.param(True, id="as events"), pytest.param(False, id="in pages")])
async def test_annotations_that_no_decision_looks_at_are_not_held(streams: bool) -> None:
    server = UserClusterServer(streams=streams)
    await server.put("one")
    server.machines["one"]["metadata"]["annotations"] = {"ullage.io/takes": "{}", "last-applied": "x" * 5000}
    async with server.followed() as cluster:
        await until(lambda: cluster.reach.reachable)
        found = cluster.cache(MACHINES).items()[0]
        assert found.metadata.annotations == {"ullage.io/takes": "{}"}
        assert cluster.held == object_weight(found) < 10 * KIB


def test_the_annotations_that_are_held_are_those_that_decisions_look_at() -> None:
    assert (MACHINES.kept_annotations, MACHINE_SETS.kept_annotations) == (GUARDED, (REVISION,))
    assert MACHINE_DEPLOYMENTS.kept_annotations == (ENFORCE_EARLY,)
    assert (SET_TEMPLATES.kept_annotations, DEPLOYMENT_TEMPLATES.kept_annotations) == ((REVISION,), (ENFORCE_EARLY,))
