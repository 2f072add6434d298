"""What a cache holds, and what its handlers are told, whatever the server does."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client import generate_latest

from tests.unit.kube.cache.reader import (
    HANG,
    THINGS,
    ScriptedReader,
    Watch,
    added,
    bookmark,
    deleted,
    initial_end,
    modified,
    thing,
)
from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from ullage.clock import FakeClock
from ullage.kube.backoff import Backoff
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.cache.reflector import WatchTiming
from ullage.kube.client.client import Listing
from ullage.kube.errors import ApiError, BadRequest, Forbidden, Gone, Invalid, NotFound, TooManyRequests, Unavailable
from ullage.kube.kinds import Kind, Object
from ullage.kube.metrics import Metrics

AT_ONCE = WatchTiming(retry=Backoff(first=0.001, cap=0.002), absent=Backoff(first=0.001, cap=0.002))
Told = list[tuple[str | None, str | None]]


class Listener:
    """Writes down what it is told, and holds its own view made of nothing else."""

    def __init__(self) -> None:
        self.told: Told = []
        self.view: dict[Key, Object] = {}

    def __call__(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        key = Key(obj.metadata.namespace, obj.metadata.name)
        assert self.view.get(key) is old, "old is what was told last"
        if new is None:
            del self.view[key]
        else:
            self.view[key] = new
        self.told.append((self._short(old), self._short(new)))

    @staticmethod
    def _short(obj: Object | None) -> str | None:
        return f"{obj.metadata.name}@{obj.metadata.resource_version}" if obj else None


@contextlib.asynccontextmanager
async def followed(api: ScriptedReader, **options: object) -> AsyncIterator[tuple[Cache[Object], Listener]]:
    """A cache that has played the whole script."""
    cache = Cache(api, THINGS, jitter=lambda: 0.0, timing=AT_ONCE, **options)  # type: ignore[arg-type]  # options of the test
    listener = Listener()
    cache.handle(listener)
    running = asyncio.create_task(cache.run())
    try:
        await asyncio.wait_for(api.idle.wait(), 10)
        yield cache, listener
        assert {key: cache.get(key) for key in listener.view} == listener.view
        assert len(cache) == len(listener.view)
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert gc.isenabled()


A1, A2, B1, C3 = thing("a", 1), thing("a", 2), thing("b", 1), thing("c", 3)
START = Watch([added(A1), added(B1), initial_end(5)])


@pytest.mark.parametrize(
    ("script", "told", "position"),
    [
        pytest.param([Watch(START.events, HANG)], [], 5, id="what is there is read once"),
        pytest.param([Watch([*START.events, modified(thing("a", 7))], HANG)], [("a@1", "a@7")], 7, id="a change is told"),
        pytest.param([Watch([*START.events, deleted(thing("b", 8))], HANG)], [("b@1", None)], 8, id="a deletion is told"),
        pytest.param([Watch([*START.events, bookmark(90)], HANG)], [], 90, id="a bookmark moves the position and nothing else"),
        pytest.param(
            [Watch([*START.events, deleted(thing("b", 8)), added(thing("b", 9, uid="other"))], HANG)],
            [("b@1", None), (None, "b@9")],
            9,
            id="an object that was made anew is told as gone and as come",
        ),
        pytest.param(
            [Watch([*START.events, modified(thing("b", 9, uid="other"))], HANG)],
            [("b@1", None), (None, "b@9")],
            9,
            id="an object with another uid is told as gone first, even if no deletion came",
        ),
        pytest.param([Watch([*START.events, deleted(thing("z", 8))], HANG)], [], 8, id="the deletion of a stranger is nothing"),
        pytest.param([Watch([*START.events, modified(A1), bookmark(6)], HANG)], [], 6, id="what was told is not told twice"),
        pytest.param(
            [START, Watch([added(thing("c", 7))], HANG)], [(None, "c@7")], 7, id="a watch that ended goes on where it was"
        ),
        pytest.param(
            [Watch([*START.events, bookmark(50)], Unavailable("cut")), Watch([], HANG)],
            [],
            50,
            id="a connection that was cut loses nothing",
        ),
        pytest.param(
            [START, Watch([], Gone("too old")), Watch([added(A2), added(C3), initial_end(20)], HANG)],
            [("b@1", None), ("a@1", "a@2"), (None, "c@3")],
            20,
            id="lost history: the difference is told, deletions too",
        ),
        pytest.param(
            [START, Watch([], Gone("too old")), Watch([initial_end(20)], HANG)],
            [("a@1", None), ("b@1", None)],
            20,
            id="lost history: everything is gone",
        ),
        pytest.param(
            [
                START,
                Watch([], Gone("too old")),
                Watch([added(thing("a", 1, uid="other")), added(B1), initial_end(20)], HANG),
            ],
            [("a@1", None), (None, "a@1")],
            20,
            id="lost history: an object that was made anew is told as gone first",
        ),
        pytest.param(
            [
                START,
                Watch([], Gone("old")),
                Watch([added(A2)], Unavailable("cut")),
                Watch([*START.events[:-1], initial_end(9)], HANG),
            ],
            [],
            9,
            id="half of a stream of what is there is not taken for all of it",
        ),
        pytest.param(
            [START, Watch([], Gone("old")), Watch([added(A2)]), Watch([*START.events[:-1], initial_end(9)], HANG)],
            [],
            9,
            id="a stream that ends before all was told is not taken for all of it",
        ),
        pytest.param(
            [
                START,
                Watch([], Gone("old")),
                Watch([added(A1), added(B1), bookmark(6), modified(A2), deleted(B1), initial_end(9)], HANG),
            ],
            [("b@1", None), ("a@1", "a@2")],
            9,
            id="what changes while everything is streamed counts as it is in the end",
        ),
    ],
)
async def test_handlers_are_told_what_happened_since_the_start(script: list[Watch], told: Told, position: int) -> None:
    async with followed(ScriptedReader(script)) as (cache, listener):
        assert listener.told == [(None, "a@1"), (None, "b@1"), *told]
        assert cache.position() == position
        assert cache.synced.is_set()


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Unavailable("no connection"), id="no server"),
        pytest.param(TooManyRequests("too many", code=429, retry_after=0.003), id="a server that is too busy"),
        pytest.param(Forbidden("no", code=403), id="no right to read, yet"),
        pytest.param(RuntimeError("a bug"), id="a bug of our own"),
        pytest.param(ConnectionResetError(), id="an error that nobody translated"),
    ],
)
async def test_it_tries_until_it_can_read(error: Exception) -> None:
    api = ScriptedReader([Watch([], error), Watch([], error), Watch(START.events, HANG)])
    async with followed(api) as (cache, listener):
        assert api.asked == ["stream", "stream", "stream"]
        assert len(listener.told) == 2
        assert cache.error is None


@pytest.mark.parametrize("refusal", [Invalid("sendInitialEvents is forbidden", code=422), BadRequest("what?", code=400)])
async def test_a_server_that_cannot_stream_is_listed(refusal: ApiError) -> None:
    lists: list[Listing[Object] | Exception] = [Listing([A1, B1], "5"), TooManyRequests("busy", code=429), Listing([A2], "9")]
    api = ScriptedReader([Watch([], refusal), Watch([], Gone("old")), Watch([added(C3)], HANG)], lists)
    async with followed(api) as (cache, listener):
        assert api.asked == ["stream", "list", "watch 5", "list", "list", "watch 9"], "asked to stream once, never again"
        assert listener.told == [(None, "a@1"), (None, "b@1"), ("b@1", None), ("a@1", "a@2"), (None, "c@3")]
        assert cache.position() == 3


async def test_a_kind_that_is_not_there_is_empty_and_synced_and_begins_when_it_is() -> None:
    missing = Watch([], NotFound("no such kind", code=404))
    api = ScriptedReader([missing, missing, Watch([added(A1), added(B1), initial_end(9)], HANG)], absences=["7", "8"])
    cache = Cache(api, THINGS, jitter=lambda: 0.0, timing=AT_ONCE)
    listener = Listener()
    cache.handle(listener)
    running = asyncio.create_task(cache.run())
    await asyncio.wait_for(cache.synced.wait(), 10)
    assert (len(cache), cache.served, cache.doubtful, cache.age(), cache.position()) == (0, False, False, None, 7)
    await asyncio.wait_for(api.idle.wait(), 10)
    assert (len(cache), cache.served, cache.position()) == (2, True, 9)
    assert listener.told == [(None, "a@1"), (None, "b@1")]
    running.cancel()


async def test_a_kind_that_goes_takes_its_objects_with_it() -> None:
    gone = Watch([], NotFound("no such kind", code=404))
    api = ScriptedReader([START, gone, Watch([added(C3), initial_end(9)], HANG)], absences=["8"])
    async with followed(api) as (_, listener):
        assert listener.told[2:] == [("a@1", None), ("b@1", None), (None, "c@3")]
        assert api.asked == ["stream", "watch 5", "absent", "stream"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("", id="there is a definition, or the server that answered has not learnt of it yet"),
        pytest.param(NotFound("404 page not found", code=404), id="a proxy that knows nothing of definitions either"),
        pytest.param(Forbidden("you may not list definitions", code=403), id="a right that is missing"),
    ],
)
async def test_a_404_of_a_kind_that_is_not_proven_to_be_gone_is_only_a_failure(answer: str | Exception) -> None:
    gone = Watch([], NotFound("not yet", code=404))
    api = ScriptedReader([START, gone, Watch([added(C3)], HANG)], absences=[answer])
    async with followed(api) as (cache, listener):
        assert listener.told[2:] == [(None, "c@3")], "nobody was told that everything is gone"
        assert api.asked == ["stream", "watch 5", "absent", "watch 5"]
        assert not cache.doubtful, "it is served again"


async def test_a_kind_whose_definition_is_there_and_which_is_not_served_is_not_synced() -> None:
    missing = Watch([], NotFound("no such version", code=404))
    api = ScriptedReader([missing, Watch([], HANG)], absences=[""])
    cache = Cache(api, THINGS, jitter=lambda: 0.0, timing=AT_ONCE)
    running = asyncio.create_task(cache.run())
    await asyncio.wait_for(api.idle.wait(), 10)
    assert (cache.synced.is_set(), cache.doubtful, str(cache.error)) == (False, True, "no such version")
    running.cancel()


async def test_a_server_that_was_restored_from_a_backup_is_read_anew() -> None:
    """A watch from the version that was reached would be silent: nothing has happened there yet."""
    end = Watch([added(C3), bookmark(20)])
    restored = Watch([added(A1), added(thing("d", 4)), initial_end(6)], HANG)
    async with followed(ScriptedReader([START, end, restored], latests=["5", "19"])) as (cache, listener):
        assert cache.position() == 6
        assert sorted(str(key) for key in listener.view) == ["n/a", "n/d"]


async def test_who_may_read_one_name_asks_for_the_version_of_that_alone() -> None:
    """Where a watch ends after some minutes: to list all would be forbidden, and the cache would stand still."""
    api = ScriptedReader([START, Watch([added(C3)], HANG)])
    async with followed(api, fields="metadata.name=a"):
        assert api.selected == ["metadata.name=a"]


async def test_everything_is_read_anew_on_demand() -> None:
    again = Watch([added(A1), added(thing("d", 4)), initial_end(6)], HANG)
    api = ScriptedReader([Watch(START.events, HANG), again])
    async with followed(api) as (cache, listener):
        assert cache.readings == 1
        api.idle.clear()
        assert (cache.renew(), cache.renew()) == (2, 2)
        await asyncio.wait_for(api.idle.wait(), 10)
        assert (cache.readings, cache.position(), cache.session) == (2, 6, 2)
        assert sorted(str(key) for key in listener.view) == ["n/a", "n/d"]


async def test_a_reading_that_had_begun_before_it_was_asked_for_does_not_count() -> None:
    api = ScriptedReader([Watch(START.events, HANG), Watch([added(A1), initial_end(6)], HANG)])
    cache = Cache(api, THINGS, jitter=lambda: 0.0, timing=AT_ONCE)
    asked: list[int] = []
    cache.handle(lambda old, new: asked.append(cache.renew()) if not asked else None)
    running = asyncio.create_task(cache.run())
    await asyncio.wait_for(api.idle.wait(), 10)
    assert (asked, cache.readings, len(cache)) == ([2], 2, 1)
    running.cancel()


async def test_a_kind_that_is_proven_absent_counts_as_read() -> None:
    api = ScriptedReader([Watch(START.events, HANG), Watch([], NotFound("no such kind", code=404))], absences=["7"])
    async with followed(api) as (cache, listener):
        api.idle.clear()
        number = cache.renew()
        await asyncio.wait_for(api.idle.wait(), 10)
        assert cache.readings >= number
        assert api.asked[:3] == ["stream", "stream", "absent"]
        assert listener.told[-2:] == [("a@1", None), ("b@1", None)]


async def test_one_version_of_two_histories_is_two_states() -> None:
    """As a server gives them away that was restored from a backup."""
    again = Watch([added(thing("a", 1, size="other")), added(B1), initial_end(6)], HANG)
    api = ScriptedReader([Watch(START.events, HANG), again])
    async with followed(api) as (cache, _):
        api.idle.clear()
        cache.renew()
        await asyncio.wait_for(api.idle.wait(), 10)
        found = cache.get(Key("n", "a"))
        assert found is not None
        assert found.metadata.labels == {"size": "other"}


@dataclass(slots=True)
class AskedForVersions(ScriptedReader):
    """Notes what a test says when its latest version is asked for."""

    notes: list[object] = field(default_factory=list)
    note: Callable[[], object] = lambda: None

    async def latest(self, kind: Kind[Any], namespace: str = "", *, fields: str = "") -> str:
        self.notes.append(self.note())
        return "5"


async def test_a_cache_is_doubtful_while_its_server_is_not_followed() -> None:
    api = AskedForVersions([START, Watch([added(C3)], HANG)])
    cache = Cache(api, THINGS, jitter=lambda: 0.0, timing=AT_ONCE)
    api.note = lambda: (cache.doubtful, cache.session)
    running = asyncio.create_task(cache.run())
    await asyncio.wait_for(api.idle.wait(), 10)
    assert api.notes == [(True, 1)], "when the watch has ended, and before the next begins"
    assert (cache.doubtful, cache.session) == (False, 2)
    running.cancel()


async def test_objects_that_did_not_change_stay_the_same_objects() -> None:
    again = Watch([added(thing("a", 1)), added(thing("b", 1)), initial_end(20)], HANG)
    async with followed(ScriptedReader([START, Watch([], Gone("old")), again])) as (cache, _):
        assert cache.get(Key("n", "a")) is A1


def broken(old: Object | None, new: Object | None) -> None:
    raise ZeroDivisionError


async def test_one_handlers_bug_is_not_the_others() -> None:
    metrics = Metrics()
    cache = Cache(api := ScriptedReader([Watch(START.events, HANG)]), THINGS, metrics=metrics)
    listener = Listener()
    cache.handle(broken)
    cache.handle(listener)
    running = asyncio.create_task(cache.run())
    await asyncio.wait_for(api.idle.wait(), 10)
    running.cancel()
    assert len(listener.view) == len(cache) == 2
    text = generate_latest(metrics.registry)
    assert b'ullage_cache_handler_errors_total{cluster="",kind="things.test.ullage.io"} 2.0' in text


async def test_a_handler_that_comes_late_is_told_of_what_is_there() -> None:
    async with followed(ScriptedReader([Watch(START.events, HANG)])) as (cache, _):
        late = Listener()
        cache.handle(late)
        assert late.told == [(None, "a@1"), (None, "b@1")]


async def test_an_index_follows_every_change() -> None:
    red, blue = thing("a", 1, colour="red"), thing("a", 6, colour="blue")
    script = [Watch([added(red), added(B1), initial_end(5), modified(blue), bookmark(7)], HANG)]
    cache = Cache(api := ScriptedReader(script), THINGS)
    cache.index("by_colour", lambda obj: obj.metadata.labels.values())
    running = asyncio.create_task(cache.run())
    await asyncio.wait_for(api.idle.wait(), 10)
    running.cancel()
    assert cache.by("by_colour", "red") == []
    assert cache.by("by_colour", "blue") == [blue]


async def test_whoever_waits_for_a_version_is_woken_when_it_is_in() -> None:
    cache = Cache(ScriptedReader([Watch([*START.events, bookmark(9), bookmark(30)], HANG)]), THINGS)
    early, late = asyncio.create_task(cache.reached(8)), asyncio.create_task(cache.reached(31))
    await asyncio.sleep(0)
    running = asyncio.create_task(cache.run())
    await asyncio.wait_for(early, 10)
    await asyncio.wait_for(cache.reached(30), 10)
    assert not late.done()
    for task in (late, running):
        task.cancel()


async def test_a_server_that_says_nothing_is_asked_again() -> None:
    api = ScriptedReader([Watch(START.events, HANG), Watch([bookmark(6)], HANG)])
    timing = WatchTiming(retry=Backoff(first=0.001, cap=0.002), silence=0.05)
    cache = Cache(api, THINGS, timing=timing)
    running = asyncio.create_task(cache.run())
    await asyncio.wait_for(cache.reached(6), 10)
    running.cancel()
    assert api.asked[:2] == ["stream", "watch 5"]


MANY = [thing(f"t{number:03}", number) for number in range(1, 401)]
ALL = [added(one) for one in MANY]


@pytest.mark.parametrize(
    ("script", "seconds", "asked"),
    [
        pytest.param([Watch([*ALL, initial_end(400)], HANG, pause=0.5)], 300, ["stream"], id="what is there comes for longer"),
        pytest.param(
            [Watch([*ALL, initial_end(400)], HANG, pause=2.5)], 1100, ["stream"], id="and for longer than a watch has"
        ),
        pytest.param([Watch([initial_end(0), *ALL], HANG, pause=0.5)], 210, ["stream"], id="it is busy all the time"),
        pytest.param([Watch([initial_end(0), *ALL], HANG, pause=0.99)], 398, ["stream"], id="it says something every second"),
        pytest.param(
            [Watch([initial_end(0), *ALL[:1]], HANG, pause=400.0, byte=170.0)], 850, ["stream"], id="one event takes minutes"
        ),
    ],
)
def test_a_server_that_is_heard_is_not_taken_for_silent(script: list[Watch], seconds: float, asked: list[str]) -> None:
    async def scene() -> tuple[bool, int, list[str]]:
        api = ScriptedReader(list(script))
        cache = Cache(api, THINGS, clock=VirtualClock(), jitter=lambda: 0.0)
        running = asyncio.create_task(cache.run())
        await asyncio.sleep(seconds)
        held = len(cache)
        running.cancel()
        return cache.synced.is_set(), held, api.asked

    expected = len([event for event in script[0].events if event.type == "ADDED"])
    assert in_virtual_time(scene()) == (True, expected, asked)


def test_a_watch_that_began_with_what_is_there_is_begun_anew_in_the_end_as_any_other() -> None:
    """Connections spread over the servers there are, and credentials that were withdrawn are noticed."""

    async def scene() -> list[str]:
        bookmarks = [bookmark(number) for number in range(1, 99)]
        api = ScriptedReader([Watch([initial_end(0), *bookmarks], pause=60.0), Watch(bookmarks[8:], pause=60.0)])
        cache = Cache(api, THINGS, clock=VirtualClock(), jitter=lambda: 0.0)
        running = asyncio.create_task(cache.run())
        await asyncio.sleep(900)
        running.cancel()
        return api.asked

    assert in_virtual_time(scene()) == ["stream", "watch 8"]


def test_where_streams_are_cut_before_they_are_complete_pages_are_read() -> None:
    """Some ways to a server hold no connection for longer than a minute."""

    async def scene() -> tuple[bool, list[str]]:
        cut = Watch([added(A1)], Unavailable("cut"))
        api = ScriptedReader([cut, cut, Watch([bookmark(6)], HANG)], lists=[Listing([A1, B1], "5")])
        cache = Cache(api, THINGS, clock=VirtualClock(), jitter=lambda: 0.0)
        running = asyncio.create_task(cache.run())
        await asyncio.sleep(100)
        running.cancel()
        return cache.synced.is_set(), api.asked

    assert in_virtual_time(scene()) == (True, ["stream", "stream", "list", "watch 5"])


async def test_a_watch_that_ends_at_once_is_begun_again_later_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    class Slept(Exception):
        pass

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 6:
            raise Slept

    api = ScriptedReader([Watch(), Watch(), Watch(), Watch(START.events), Watch([added(C3)]), Watch()])
    cache = Cache(api, THINGS, clock=FakeClock(), jitter=lambda: 0.0)
    monkeypatch.setattr("ullage.kube.cache.reflector.asyncio.sleep", sleep)
    with pytest.raises(Slept):
        await cache.run()
    assert pauses == [0.1, 0.2, 0.4, 0.8, 0.0, 0.1], "it starts over once something came"


async def test_what_prometheus_is_told() -> None:
    clock, metrics = FakeClock(), Metrics()
    script = [START, Watch([], Gone("old")), Watch([added(A2), initial_end(9), added(thing("d", 10))], HANG)]
    async with followed(ScriptedReader(script), clock=clock, metrics=metrics):
        clock.advance(7.0)
        text = generate_latest(metrics.registry).decode()
    for line in ("objects", "2.0"), ("age_seconds", "7.0"), ("synced", "1.0"), ("syncs_total", "2.0"), ("events_total", "1.0"):
        assert f'ullage_cache_{line[0]}{{cluster="",kind="things.test.ullage.io"}} {line[1]}' in text
