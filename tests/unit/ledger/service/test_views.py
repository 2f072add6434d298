"""Counting by increments: whatever happens to the objects, the sums are those of the objects that are there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.simulated import ACCOUNT, BY_TEAM, CUPS, LEDGER, STAMP, Cup, CupSpec, Server, cup_key, taken, takes
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import NOTHING, Takings
from ullage.ledger.fold import Live, Seen
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import Evaluator, KindView
from ullage.quantity import Quantity


def cup(name: str, version: int, size: int, *, uid: str = "", namespace: str = "team") -> Cup:
    meta = Meta(name=name, namespace=namespace, uid=uid or f"uid-{name}", resource_version=str(version))
    return Cup(metadata=meta, spec=CupSpec(size=size))


def by_namespace(one: Cup) -> str:
    """Nobody's for size 0; a bug for size 99."""
    if one.spec.size == 99:
        raise ZeroDivisionError
    return f"ns-{one.metadata.namespace}" if one.spec.size else ""


def watching(changes: Sequence[tuple[Cup | None, Cup | None]]) -> KindView[Cup]:
    """A view that was told of changes, without a server."""
    cache = Cache(Server(), CUPS, clock=VirtualClock())
    view = KindView(cache, Evaluator(by_namespace, taken), client=Server(), clock=VirtualClock())
    for old, new in changes:
        view._change(old, new)
    return view


A1, A2, A0 = cup("a", 1, 3), cup("a", 2, 5), cup("a", 3, 0)
OTHER = cup("b", 4, 7, namespace="other")


def test_a_view_that_takes_the_place_of_another_is_not_taken_for_it() -> None:
    async def main() -> None:
        views = [KindView(Cache(Server(), CUPS), BY_TEAM, client=Server()) for _ in range(2)]
        assert len({view.session for view in views}) == 2

    in_virtual_time(main())


@pytest.mark.parametrize(
    ("changes", "sums"),
    [
        pytest.param([(None, A1)], {"ns-team": 3}, id="what comes is added"),
        pytest.param([(None, A1), (A1, A2)], {"ns-team": 5}, id="what changes counts as it is"),
        pytest.param([(None, A1), (A1, None)], {}, id="what goes leaves nothing"),
        pytest.param([(None, A1), (A1, A0)], {}, id="what takes nothing any more leaves nothing"),
        pytest.param([(None, A1), (None, OTHER)], {"ns-team": 3, "ns-other": 7}, id="each ledger has its own"),
        pytest.param([(None, A1), (A1, None), (None, cup("a", 9, 2, uid="new"))], {"ns-team": 2}, id="made anew"),
    ],
)
async def test_sums_follow_the_objects(changes: list[tuple[Cup | None, Cup | None]], sums: dict[str, int]) -> None:
    view = watching(changes)
    for ledger in ("ns-team", "ns-other"):
        wanted = sums.get(ledger)
        assert view.of(ledger).sums == (Takings({ACCOUNT: Quantity.of(wanted)}) if wanted else NOTHING)


async def test_an_object_is_seen_with_what_it_takes_from_the_ledger_that_asks() -> None:
    view = watching([(None, OTHER)])
    key = f"{CUPS.name}//other/b"
    assert view.of("ns-other").get(key) == Seen("uid-b", 4, takes(7))
    assert view.of("ns-team").get(key) == Seen("uid-b", 4, NOTHING)
    assert view.of("ns-team").get(cup_key("a")) is None


async def test_an_object_that_takes_nothing_is_seen_all_the_same() -> None:
    assert watching([(None, A0)]).of("ns-team").get(cup_key("a")) == Seen("uid-a", 3, NOTHING)


BROKEN = replace(A2, metadata=replace(A2.metadata, annotations={STAMP: "x"}))
LOST = cup("a", 2, 99)
KEY = cup_key("a")


@pytest.mark.parametrize(
    ("changes", "uncounted"),
    [
        pytest.param([(None, A1)], {}, id="all can be counted"),
        pytest.param([(None, BROKEN)], {"ns-team": KEY}, id="of one that came it cannot be told what it takes"),
        pytest.param([(None, A1), (A1, BROKEN)], {"ns-team": KEY}, id="of one that changed it cannot be told any more"),
        pytest.param([(None, BROKEN), (BROKEN, A2)], {}, id="one that was mended"),
        pytest.param([(None, BROKEN), (BROKEN, A0)], {}, id="one that is in no ledger any more"),
        pytest.param([(None, BROKEN), (BROKEN, None)], {}, id="one that is gone"),
        pytest.param([(None, LOST)], {"ns-team": KEY, "ns-other": KEY}, id="whose it is cannot be told, which is a bug"),
        pytest.param([(None, LOST), (LOST, A2)], {}, id="whose it is can be told again"),
    ],
)
async def test_an_object_that_cannot_be_counted_stops_its_own_ledger_alone(
    changes: list[tuple[Cup | None, Cup | None]], uncounted: dict[str, str]
) -> None:
    view = watching([(None, OTHER), *changes])
    view.cache.synced.set()
    for ledger in ("ns-team", "ns-other"):
        assert view.usable(ledger) is (ledger not in uncounted)
        assert view.uncounted(ledger) == ((uncounted[ledger],) if ledger in uncounted else ())
    assert view.of("ns-other").sums == takes(7)


async def test_sums_are_right_again_when_an_object_was_mended() -> None:
    view = watching([(None, A1), (A1, BROKEN), (BROKEN, A2)])
    assert view.of("ns-team").sums == takes(5)


async def test_before_everything_was_read_a_view_is_not_used() -> None:
    assert not watching([(None, A1)]).usable(LEDGER)


def test_a_404_that_proves_nothing_empties_no_view() -> None:
    async def main() -> None:
        server, clock = Server(), VirtualClock()
        server.cup("a", 2)
        cache = Cache(server, CUPS, clock=clock)
        view = KindView(cache, BY_TEAM, client=server, clock=clock)
        reading = asyncio.create_task(cache.run())
        await cache.synced.wait()
        server.unserved.add(CUPS.name)
        server.cup("b", 3)
        await asyncio.sleep(60)
        assert (view.usable(LEDGER), view.of(LEDGER).sums) == (False, takes(2))
        with pytest.raises(NotFound):
            await view.live(cup_key("b"))
        server.unserved.clear()
        await asyncio.sleep(60)
        assert (view.usable(LEDGER), view.of(LEDGER).sums) == (True, takes(5))
        reading.cancel()

    in_virtual_time(main())


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(lambda server: None, id="it stays"),
        pytest.param(lambda server: server.drop(CUPS, Key("team", "b")), id="it goes"),
        pytest.param(lambda server: server.cup("b", 1, uid="another"), id="it is made anew"),
    ],
)
def test_whether_a_cache_shows_what_was_listed(then: Callable[[Server], object]) -> None:
    async def main() -> None:
        server, clock = Server(), VirtualClock()
        server.watch_lag = lambda: 1.0
        cache = Cache(server, CUPS, clock=clock)
        view = KindView(cache, BY_TEAM, client=server, clock=clock)
        reading = asyncio.create_task(cache.run())
        await cache.synced.wait()
        server.cup("b", 3)
        shows = await view.listed(LEDGER)
        then(server)
        assert not shows()
        await asyncio.sleep(5)
        assert shows()
        assert (await view.listed("project-abc"))(), "it is in no namespace"
        reading.cancel()

    in_virtual_time(main())


def test_a_kind_whose_definition_is_gone_takes_nothing() -> None:
    async def main() -> None:
        server, clock = Server(), VirtualClock()
        server.cup("a", 2)
        server.undefined.add(CUPS.name)
        cache = Cache(server, CUPS, clock=clock)
        view = KindView(cache, BY_TEAM, client=server, clock=clock)
        reading = asyncio.create_task(cache.run())
        await cache.synced.wait()
        assert (view.usable(LEDGER), view.of(LEDGER).sums, view.of(LEDGER).position) == (True, NOTHING, server.version)
        reading.cancel()

    in_virtual_time(main())


def test_who_went_is_remembered_for_a_while() -> None:
    async def main() -> None:
        clock = VirtualClock()
        view = KindView(Cache(Server(), CUPS, clock=clock), BY_TEAM, client=Server(), clock=clock, remember=300)
        view._change(None, A1)
        assert not view.of(LEDGER).gone("uid-a")
        view._change(A1, None)
        assert view.of(LEDGER).gone("uid-a")
        await asyncio.sleep(301)
        view._change(OTHER, None)
        assert not view.of(LEDGER).gone("uid-a")
        assert view.of(LEDGER).gone("uid-b")

    in_virtual_time(main())


def test_a_view_of_a_server_has_its_position_and_asks_it_about_single_objects() -> None:
    async def main() -> None:
        server, clock = Server(), VirtualClock()
        server.cup("a", 2)
        cache = Cache(server, CUPS, clock=clock)
        view = KindView(cache, BY_TEAM, client=server, clock=clock)
        reading = asyncio.create_task(cache.run())
        await cache.synced.wait()
        made = server.cup("b", 3)
        await cache.reached(server.version)
        assert view.usable(LEDGER)
        assert (view.of(LEDGER).position, view.of(LEDGER).sums) == (server.version, takes(5))
        assert await view.live(cup_key("b")) == Live("uid-b", int(made.metadata.resource_version))
        server.drop(CUPS, Key("team", "b"))
        assert await view.live(cup_key("b")) == Live()
        before = view.complete_at()
        await asyncio.sleep(5)
        assert (clock.now() - view.complete_at()).total_seconds() == pytest.approx(5, abs=0.1)
        assert (view.complete_at() - before).total_seconds() == pytest.approx(0, abs=0.1), "silence is no news"
        reading.cancel()

    in_virtual_time(main())


async def test_two_views_of_one_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="two views"):
        Sources(watching([]), watching([]))
