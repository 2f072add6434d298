"""Events: what is written, how often, and that nothing of it ever reaches a reconciler."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any

import msgspec
import pytest

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from ullage.kube.builtin.core import ObjectReference
from ullage.kube.builtin.events import Event
from ullage.kube.errors import AlreadyExists, Forbidden, NotFound, TooManyRequests, Unavailable
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder, shorten
from ullage.kube.events.series import Limits, SeriesBook
from ullage.kube.kinds import Kind, Meta, Object

TANKS = Kind("x.example.com", "v1", "Tank", "tanks", Object)
ROOMS = Kind("x.example.com", "v1", "Room", "rooms", Object, namespaced=False)
FILLED = Reason("TankFilled", action="Fill")
BURST = Reason("TankBurst", type="Warning")


def tank(name: str = "a", uid: str = "1") -> Object:
    return Object(metadata=Meta(name=name, namespace="n", uid=uid))


class EventApi:
    """The Events of a cluster, and switchable trouble."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], Event] = {}
        self.trouble: list[Exception | None] = []  # one for each request to come
        self.down: Exception | None = None
        self.requests: list[str] = []
        self.moments: list[float] = []

    async def _arrive(self, verb: str) -> None:
        await asyncio.sleep(0.01)
        self.requests.append(verb)
        self.moments.append(asyncio.get_running_loop().time())
        problem = self.trouble.pop(0) if self.trouble else self.down
        if problem is not None:
            raise problem

    async def create(self, kind: object, event: Event) -> Event:
        await self._arrive("create")
        key = (event.metadata.namespace, event.metadata.name)
        if key in self.events:
            raise AlreadyExists("there is one", code=409)
        self.events[key] = event
        return event

    async def get(self, kind: object, name: str, namespace: str) -> Event:
        await self._arrive("get")
        return self.events[namespace, name]

    async def patch(self, kind: object, name: str, namespace: str, *, merge: dict[str, Any]) -> Event:
        await self._arrive("patch")
        if (namespace, name) not in self.events:
            raise NotFound("gone", code=404)
        whole = {**msgspec.to_builtins(self.events[namespace, name]), **merge}
        self.events[namespace, name] = msgspec.convert(whole, Event)
        return self.events[namespace, name]

    @property
    def only(self) -> Event:
        assert len(self.events) == 1, self.events
        return next(iter(self.events.values()))

    @property
    def count(self) -> int:
        return self.only.series.count if self.only.series else 1


class Recording:
    """A recorder and what it reported of itself."""

    def __init__(self, api: EventApi, *, limits: Limits | None = None, instance: str = "host_1") -> None:
        self.api = api
        self.outcomes: list[str] = []
        client: Any = api
        self.recorder = Recorder(
            client, "ullage.io/tanks", instance=instance, clock=VirtualClock(), limits=limits, observe=self.outcomes.append
        )

    def say(self, note: str = "full", *, times: int = 1, obj: Object | None = None, reason: Reason = FILLED) -> None:
        for _ in range(times):
            self.recorder.record(TANKS, obj or tank(), reason, note=note)


@contextlib.asynccontextmanager
async def recording(api: EventApi | None = None, **options: Any) -> AsyncIterator[Recording]:
    made = Recording(api or EventApi(), **options)
    async with made.recorder:
        yield made


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**arguments: Any) -> None:
        in_virtual_time(test(**arguments))

    return run


@virtual
async def test_an_event_says_what_happened_to_what_and_who_says_so() -> None:
    async with recording() as made:
        made.say("full to the brim")
        await asyncio.sleep(1)
        event = made.api.only
    assert event.metadata.namespace == "n"
    assert event.metadata.name.startswith("a.")
    assert event.regarding == ObjectReference(api_version="x.example.com/v1", kind="Tank", namespace="n", name="a", uid="1")
    assert (event.reason, event.action, event.type, event.note) == ("TankFilled", "Fill", "Normal", "full to the brim")
    assert (event.reporting_controller, event.reporting_instance) == ("ullage.io/tanks", "host_1")
    assert event.event_time is not None
    assert event.event_time.endswith("Z")
    assert event.series is None


@virtual
async def test_events_on_cluster_wide_objects_live_in_the_default_namespace() -> None:
    async with recording() as made:
        made.recorder.record(ROOMS, Object(metadata=Meta(name="system:x", uid="1")), BURST, note="")
        await asyncio.sleep(1)
        assert made.api.only.metadata.namespace == "default"
        assert made.api.only.metadata.name.startswith("system-x.")
        assert (made.api.only.type, made.api.only.action) == ("Warning", "TankBurst")


@virtual
async def test_what_is_said_again_becomes_a_series_and_costs_less_and_less() -> None:
    async with recording() as made:
        for _ in range(600):  # a minute
            made.say()
            await asyncio.sleep(0.1)
        assert made.api.requests == ["create", "patch", "patch", "patch"]
        gaps = [later - before for before, later in zip(made.api.moments, made.api.moments[1:], strict=False)]
        assert gaps == pytest.approx([0.1, 10, 20], abs=0.2)
    assert made.api.count == 600, "the rest is written at the end"


@virtual
async def test_what_is_said_at_once_is_one_request() -> None:
    async with recording() as made:
        made.say(times=50)
        await asyncio.sleep(1)
        assert made.api.requests == ["create"]
        assert made.api.count == 50


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"note": "empty"}, id="another note"),
        pytest.param({"reason": BURST}, id="another reason"),
        pytest.param({"obj": tank("b")}, id="another object"),
        pytest.param({"obj": tank(uid="2")}, id="another object of the same name"),
    ],
)
@virtual
async def test_something_else_is_an_event_of_its_own(other: dict[str, Any]) -> None:
    async with recording() as made:
        made.say()
        made.say(**other)
        await asyncio.sleep(1)
        assert len(made.api.events) == 2


@virtual
async def test_a_series_goes_on_after_a_restart_and_in_another_replica() -> None:
    api = EventApi()
    for number in range(3):
        async with recording(api, instance=f"host_{number}") as made:
            made.say(times=2)
            await asyncio.sleep(1)
    assert api.count == 6


@virtual
async def test_an_event_that_the_api_forgot_is_made_anew_with_what_it_did_not_know() -> None:
    async with recording() as made:
        made.say(times=5)
        await asyncio.sleep(1)
        made.api.events.clear()
        made.say()
        await asyncio.sleep(20)
        assert made.api.count == 1
        made.say()
        await asyncio.sleep(60)
        assert made.api.count == 2


@virtual
async def test_one_object_cannot_fill_the_api_with_events() -> None:
    async with recording(limits=Limits(burst=5, refill=60)) as made:
        for number in range(20):
            made.say(f"note {number}")
        made.say(obj=tank("b", "2"))
        await asyncio.sleep(1)
        assert len(made.api.events) == 6, "five on one object, and the other object is not held back"
        assert made.outcomes.count("dropped") == 15
        await asyncio.sleep(120)
        for number in range(20):
            made.say(f"later {number}")
        await asyncio.sleep(1)
        assert len(made.api.events) == 8, "two more after two minutes"


@virtual
async def test_while_the_api_is_away_events_wait_and_do_not_pile_up() -> None:
    async with recording(limits=Limits(series=10)) as made:
        made.api.down = Unavailable("connection refused")
        for number in range(30):
            made.say(obj=tank(f"t{number}", str(number)))
        await asyncio.sleep(60)
        assert made.outcomes == ["dropped"] * 20
        assert len(made.api.requests) < 10, "it waits longer and longer"
        made.api.down = None
        await asyncio.sleep(120)
        assert len(made.api.events) == 10


@virtual
async def test_a_server_that_asks_for_patience_gets_it() -> None:
    async with recording() as made:
        made.api.trouble = [TooManyRequests("slow down", code=429, retry_after=30)]
        made.say()
        await asyncio.sleep(29)
        assert made.api.requests == ["create"]
        await asyncio.sleep(3)
        assert made.api.count == 1


@pytest.mark.parametrize(
    "problem", [Forbidden("namespace is going", code=403), RuntimeError("bug")], ids=["is refused", "meets a bug"]
)
@virtual
async def test_an_event_that(problem: Exception) -> None:
    """…costs itself only."""
    async with recording() as made:
        made.api.trouble = [problem]
        made.say("first")
        made.say("second")
        await asyncio.sleep(1)
        assert made.api.only.note == "second"
        assert sorted(made.outcomes) == ["failed", "written"]


@virtual
async def test_one_event_that_keeps_failing_does_not_hold_the_others_back() -> None:
    async with recording() as made:
        made.api.trouble = [Unavailable("its webhook is away", code=500), None, Unavailable("still", code=500)]
        made.say("first")
        made.say("second", obj=tank("b", "2"))
        await asyncio.sleep(1.5)
        assert made.api.only.note == "second"


@virtual
async def test_an_event_whose_answer_was_lost_is_not_counted_twice() -> None:
    async with recording() as made:
        original = made.api.create

        async def lossy(kind: object, event: Event) -> Event:
            made.api.create = original  # type: ignore[method-assign]
            await original(kind, event)
            raise Unavailable("reset", code=0)

        made.api.create = lossy  # type: ignore[method-assign]
        made.say()
        await asyncio.sleep(10)
        assert made.api.count == 1
        made.say()
        await asyncio.sleep(10)
        assert made.api.count == 2


@virtual
async def test_stopping_writes_what_is_left_but_not_for_ever() -> None:
    api = EventApi()
    made = Recording(api)
    async with made.recorder:
        made.say()
    assert api.count == 1
    made.say("too late")
    assert (api.count, made.outcomes) == (1, ["written", "dropped"])

    slow = Recording(EventApi())
    slow.api.down = Unavailable("connection refused")
    before = asyncio.get_running_loop().time()
    async with slow.recorder:
        slow.say()
    assert asyncio.get_running_loop().time() - before < 10
    assert slow.outcomes == ["dropped"]


@virtual
async def test_recording_waits_for_nothing_and_takes_any_note() -> None:
    made = Recording(EventApi())
    made.say("\ud800 broken", times=3)
    assert (made.api.requests, made.outcomes) == ([], [])
    async with made.recorder:
        await asyncio.sleep(1)
        assert (made.api.count, made.api.only.note) == (3, "? broken")


# --- the parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["", "tankFilled", "Tank Filled", "Tank_Filled", "TANK-FILLED", "T" * 129, "Tänk"])
def test_a_reason_that_is_no_pascal_case_word_fails_where_it_is_declared(word: str) -> None:
    with pytest.raises(ValueError, match="one PascalCase word"):
        Reason(word)
    if word:
        with pytest.raises(ValueError, match="one PascalCase word"):
            Reason("Fine", action=word)


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        pytest.param("short", "short", id="a short note stays"),
        pytest.param("x" * 1024, "x" * 1024, id="as long as it may be"),
        pytest.param("x" * 1025, "x" * 1021 + "…", id="one byte too long"),
        pytest.param("é" * 600, "é" * 510 + "…", id="cut between characters"),
        pytest.param("\ud800", "?", id="half a character"),
    ],
)
def test_notes_are_cut_to_what_the_api_takes(note: str, expected: str) -> None:
    assert shorten(note) == expected
    assert len(shorten(note).encode()) <= 1024


def test_series_that_are_silent_make_room_and_are_forgotten() -> None:
    book: SeriesBook[str] = SeriesBook(Limits(series=2, forget=100))
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def say(key: str, now: float) -> bool:
        return book.say(key, about=key, now=now, moment=noon + timedelta(seconds=now))

    assert say("a", 0)
    assert say("b", 1)
    assert not say("c", 2), "both wait to be written"
    [a, _] = book.due(2)
    book.wrote(a, said=1, now=2)
    assert say("c", 3), "a has nothing to write and makes room"
    assert [series.key for series in book.due(3)] == ["b", "c"]
    assert book.due(102) == [series for series in book.pending() if series.key == "c"]
    assert len(book) == 1, "b is no news any more"
