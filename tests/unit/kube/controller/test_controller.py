"""From events to keys, from what reconcile does to what comes next, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from prometheus_client import generate_latest

from tests.unit.kube.cache.reader import HANG, THINGS, ScriptedReader, Watch, added, deleted, initial_end, modified, thing
from ullage.errors import Retryable, Terminal
from ullage.kube.backoff import Backoff
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import WatchEvent
from ullage.kube.controller.controller import Controller, Requeue, Source, own, owned, run
from ullage.kube.errors import Conflict, TooManyRequests
from ullage.kube.kinds import Kind, Meta, Object, OwnerReference
from ullage.kube.metrics import Metrics

QUICK = Backoff(first=0.002, cap=0.01)
A = Key("n", "a")


def filled(*events: WatchEvent[Any]) -> Cache[Object]:
    """A cache whose server says these events, and then nothing."""
    return Cache(ScriptedReader([Watch(events, HANG)]), THINGS)


@contextlib.asynccontextmanager
async def running(controller: Controller[Key], *caches: Cache[Object]) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(run(caches, [controller], stop=stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(task, 10)


class Reconciler:
    """Does what its script says, run by run, then nothing; `finished` is set after so many runs."""

    def __init__(self, *script: object, runs: int) -> None:
        self.script = list(script)
        self.keys: list[Key] = []
        self.runs = runs
        self.finished = asyncio.Event()

    async def __call__(self, key: Key) -> Requeue | None:
        self.keys.append(key)
        if len(self.keys) >= self.runs:
            self.finished.set()
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        assert step is None or isinstance(step, Requeue)
        return step


@pytest.mark.parametrize(
    ("script", "runs", "counts"),
    [
        pytest.param([], 1, {"done": 1}, id="a run that returns nothing is the last"),
        pytest.param([Requeue(0.001), Requeue(0.001)], 3, {"requeued": 2, "done": 1}, id="a run may ask for another"),
        pytest.param([Retryable("busy")] * 3, 4, {"retry": 3, "done": 1}, id="what can be retried is"),
        pytest.param([Conflict("newer", code=409)], 2, {"retry": 1, "done": 1}, id="a conflict is retried"),
        pytest.param([Terminal("no such class")], 1, {"terminal": 1}, id="what cannot be helped is left alone"),
        pytest.param([ZeroDivisionError()] * 2, 3, {"error": 2, "done": 1}, id="a bug is retried too"),
        pytest.param(
            [ExceptionGroup("both", [Retryable("x"), Retryable("y")])],
            2,
            {"retry": 1, "done": 1},
            id="several that can be retried count as one",
        ),
        pytest.param([ExceptionGroup("all", [Terminal("x")])], 1, {"terminal": 1}, id="several that cannot be helped"),
        pytest.param(
            [ExceptionGroup("both", [Terminal("x"), Retryable("y")])],
            2,
            {"error": 1, "done": 1},
            id="a mixture is retried, and seen",
        ),
    ],
)
async def test_what_a_run_does_decides_what_comes_next(script: list[object], runs: int, counts: dict[str, int]) -> None:
    cache = filled(added(thing("a", 1)), initial_end(5))
    reconcile = Reconciler(*script, runs=runs)
    metrics = Metrics()
    controller = Controller("things", [own(cache)], reconcile, backoff=QUICK, metrics=metrics)
    async with running(controller, cache):
        await asyncio.wait_for(reconcile.finished.wait(), 10)
        await asyncio.wait_for(controller.queue.drained(), 10)
        assert controller.queue.waiting == 0
    assert reconcile.keys == [A] * runs
    text = generate_latest(metrics.registry).decode()
    shown = {
        result: f'ullage_reconcile_total{{controller="things",result="{result}"}} {count}.0' for result, count in counts.items()
    }
    assert all(line in text for line in shown.values()), text
    assert f'ullage_queue_latency_seconds_count{{controller="things"}} {runs}.0' in text
    assert 'ullage_queue_depth{controller="things"} 0.0' in text


CONFLICT = Conflict("newer", code=409)


@pytest.mark.parametrize(
    ("error", "times", "levels"),
    [
        pytest.param(CONFLICT, 3, ["DEBUG"] * 3, id="a conflict is for debugging"),
        pytest.param(CONFLICT, 5, ["DEBUG"] * 3 + ["WARNING"] * 2, id="one that does not end is a warning"),
        pytest.param(Retryable("busy"), 3, ["INFO"] * 3, id="anything else is told"),
        pytest.param(ExceptionGroup("both", [CONFLICT, Retryable("busy")]), 1, ["INFO"], id="also beside a conflict"),
    ],
)
async def test_how_loud_a_retry_is(error: Exception, times: int, levels: list[str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="ullage.kube.controller.controller")
    cache = filled(added(thing("a", 1)), initial_end(5))
    reconcile = Reconciler(*[error] * times, runs=times + 1)
    controller = Controller("things", [own(cache)], reconcile, backoff=QUICK)
    async with running(controller, cache):
        await asyncio.wait_for(reconcile.finished.wait(), 10)
    assert [one.levelname for one in caplog.records if "tried again" in one.message] == levels


async def test_a_terminal_error_ends_when_something_changes() -> None:
    api = ScriptedReader([Watch([added(thing("a", 1)), initial_end(5)], HANG)])
    cache = Cache(api, THINGS)
    reconcile = Reconciler(Terminal("bad spec"), runs=2)
    controller = Controller("things", [own(cache)], reconcile)
    async with running(controller, cache):
        await asyncio.wait_for(api.idle.wait(), 10)
        await asyncio.wait_for(controller.queue.drained(), 10)
        assert reconcile.keys == [A]
        controller.queue.add(A)  # what the cache does with the next event
        await asyncio.wait_for(reconcile.finished.wait(), 10)


async def test_of_several_errors_each_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    cache = filled(added(thing("a", 1)), initial_end(5))
    several = ExceptionGroup("all", [Terminal("no x"), ExceptionGroup("more", [Terminal("no y"), Terminal("no x")])])
    reconcile = Reconciler(several, runs=1)
    controller = Controller("things", [own(cache)], reconcile)
    async with running(controller, cache):
        await asyncio.wait_for(reconcile.finished.wait(), 10)
        await asyncio.wait_for(controller.queue.drained(), 10)
    assert [one.__dict__["error"] for one in caplog.records if "error" in one.__dict__] == ["no x; no y"]


PATIENCE = TooManyRequests("slow down", code=429, retry_after=60.0)


@pytest.mark.parametrize("error", [PATIENCE, ExceptionGroup("both", [Retryable("x"), PATIENCE])], ids=["alone", "among others"])
async def test_a_server_that_asks_for_patience_gets_it(error: Exception) -> None:
    cache = filled(added(thing("a", 1)), initial_end(5))
    reconcile = Reconciler(error, runs=1)
    controller = Controller("things", [own(cache)], reconcile, backoff=QUICK)
    async with running(controller, cache):
        await asyncio.wait_for(reconcile.finished.wait(), 10)
        await asyncio.wait_for(controller.queue.drained(), 10)
        due_in = controller.queue.due_in()
        assert due_in is not None
        assert due_in > 50.0


async def test_a_bug_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    cache = filled(added(thing("a", 1)), initial_end(5))
    reconcile = Reconciler(ZeroDivisionError("oops"), runs=2)
    with caplog.at_level(logging.ERROR, logger="ullage.kube.controller.controller"):
        async with running(Controller("things", [own(cache)], reconcile, backoff=QUICK), cache):
            await asyncio.wait_for(reconcile.finished.wait(), 10)
    (record,) = caplog.records
    assert (record.message, vars(record)["key"], vars(record)["controller"]) == ("reconcile failed", "n/a", "things")
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ZeroDivisionError)


async def test_a_run_that_hangs_is_ended_and_tried_again() -> None:
    cache = filled(added(thing("a", 1)), initial_end(5))
    runs: list[Key] = []
    again = asyncio.Event()

    async def reconcile(key: Key) -> None:
        runs.append(key)
        if len(runs) == 2:
            again.set()
            return
        await asyncio.Event().wait()

    async with running(Controller("things", [own(cache)], reconcile, backoff=QUICK, longest_run=0.02), cache):
        await asyncio.wait_for(again.wait(), 10)


async def test_no_key_is_reconciled_before_every_cache_is_synced() -> None:
    first = filled(added(thing("a", 1)), initial_end(5))
    second = Cache(ScriptedReader([Watch([added(thing("b", 1))], HANG)]), THINGS)  # its end never comes
    reconcile = Reconciler(runs=1)
    controller = Controller("things", [own(first), own(second)], reconcile)
    async with running(controller, first, second):
        await asyncio.wait_for(first.synced.wait(), 10)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(controller.queue) == 1
    assert reconcile.keys == [], "and it stops without having started"


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(lambda task, controller: controller.stop(), id="stopped"),
        pytest.param(lambda task, controller: task.cancel(), id="cancelled"),
    ],
)
async def test_one_that_ends_before_it_began_leaves_no_complaint_behind(
    ends: Callable[[asyncio.Task[None], Controller[Key]], object],
) -> None:
    complaints = list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context["message"]))
    controller = Controller("things", [own(filled()), own(filled())], Reconciler(runs=1))
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    ends(task, controller)
    await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 10)
    for _ in range(3):  # what was cancelled ends
        await asyncio.sleep(0)
    gc.collect()
    assert complaints == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_one_key_never_runs_twice_at_once_and_no_change_is_lost() -> None:
    busy: set[Key] = set()
    seen: list[int] = []
    events = [added(thing("a", 1)), initial_end(1), *(modified(thing("a", version)) for version in range(2, 400))]
    cache = Cache(ScriptedReader([Watch(events, HANG)]), THINGS)

    async def reconcile(key: Key) -> None:
        assert key not in busy
        busy.add(key)
        found = cache.get(key)
        assert found is not None
        await asyncio.sleep(0)
        seen.append(int(found.metadata.resource_version))
        busy.remove(key)

    controller = Controller("things", [own(cache)], reconcile, workers=8)
    async with running(controller, cache):
        await asyncio.wait_for(cache.reached(399), 10)
        await asyncio.wait_for(controller.queue.drained(), 10)
    assert seen == sorted(seen)
    assert seen[-1] == 399, "the last run saw the last change"


VOLUMES = Kind("test.ullage.io", "v1", "Volume", "volumes", Object)


def child(name: str, version: int, *owners: tuple[str, str, str, bool]) -> Object:
    references = tuple(
        OwnerReference(api_version=api, kind=kind, name=owner, uid="u", controller=controls)
        for api, kind, owner, controls in owners
    )
    return Object(metadata=Meta(name=name, namespace="n", uid=name, resource_version=str(version), owner_references=references))


@pytest.mark.parametrize(
    ("owner", "woken"),
    [
        pytest.param(("test.ullage.io/v1", "Volume", "v", True), ["n/v"], id="the controlling owner is woken"),
        pytest.param(("test.ullage.io/v1beta1", "Volume", "v", True), ["n/v"], id="whatever version it was written in"),
        pytest.param(("test.ullage.io/v1", "Volume", "v", False), [], id="an owner that does not control is not"),
        pytest.param(("other.io/v1", "Volume", "v", True), [], id="a kind of another group is not"),
        pytest.param(("test.ullage.io/v1", "Engine", "v", True), [], id="another kind is not"),
    ],
)
async def test_owned_objects_wake_their_owner(owner: tuple[str, str, str, bool], woken: list[str]) -> None:
    source = owned(filled(), by=VOLUMES)
    assert [str(key) for key in source.affected(None, child("c", 1, owner))] == woken


def volume_of(obj: Object) -> list[Key]:
    return [Key("n", obj.metadata.labels["volume"])]


@pytest.mark.parametrize(
    ("old", "new", "woken"),
    [
        pytest.param(None, "x", ["x"], id="one that comes wakes where it is"),
        pytest.param("x", None, ["x"], id="one that goes wakes where it was"),
        pytest.param("x", "y", ["x", "y"], id="one that moves wakes both"),
        pytest.param("x", "x", ["x"], id="one that stays wakes once"),
    ],
)
async def test_a_change_wakes_whoever_depended_on_it_before_and_after(
    old: str | None, new: str | None, woken: list[str]
) -> None:
    source = Source(filled(), volume_of)
    make: Callable[[str], Object] = lambda volume: thing("s", 1, volume=volume)  # noqa: E731  # shorter here
    found = source.affected(make(old) if old else None, make(new) if new else None)
    assert [key.name for key in found] == woken


async def test_a_source_may_look_away() -> None:
    source = Source(filled(), volume_of, when=lambda old, new: new is not None)
    assert list(source.affected(thing("s", 1, volume="x"), None)) == []


async def test_a_deleted_object_wakes_its_key() -> None:
    a = thing("a", 1)
    cache = filled(added(a), initial_end(5), deleted(thing("a", 6)))
    gone = asyncio.Event()

    async def reconcile(key: Key) -> None:
        if cache.get(key) is None:
            gone.set()

    async with running(Controller("things", [own(cache)], reconcile), cache):
        await asyncio.wait_for(gone.wait(), 10)


async def test_stopping_lets_a_run_finish_and_begins_no_other() -> None:
    cache = filled(added(thing("a", 1)), added(thing("b", 1)), initial_end(5))
    begun, go, log = asyncio.Event(), asyncio.Event(), list[str]()

    async def reconcile(key: Key) -> None:
        log.append(f"begin {key.name}")
        begun.set()
        await go.wait()
        log.append(f"end {key.name}")

    stop = asyncio.Event()
    controller = Controller("things", [own(cache)], reconcile, workers=1)
    task = asyncio.create_task(run([cache], [controller], stop=stop))
    await asyncio.wait_for(begun.wait(), 10)
    controller.stop()
    go.set()
    await asyncio.wait_for(task, 10)
    assert log == ["begin a", "end a"]


async def test_a_run_that_does_not_finish_in_time_is_cut_off() -> None:
    cache = filled(added(thing("a", 1)), initial_end(5))
    begun, log = asyncio.Event(), list[str]()

    async def reconcile(key: Key) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            log.append("cut off")

    stop = asyncio.Event()
    task = asyncio.create_task(run([cache], [Controller("things", [own(cache)], reconcile)], stop=stop, grace=0.01))
    await asyncio.wait_for(begun.wait(), 10)
    stop.set()
    await asyncio.wait_for(task, 10)
    assert log == ["cut off"]


async def test_if_one_part_dies_all_do_and_the_reason_is_raised() -> None:
    cache = filled(initial_end(5))

    class Broken(Cache[Object]):
        async def run(self) -> None:
            raise MemoryError("no room")

    broken = Broken(ScriptedReader(), THINGS)
    controller = Controller("things", [own(cache)], Reconciler(runs=1))
    with pytest.raises(MemoryError, match="no room"):
        await asyncio.wait_for(run([cache, broken], [controller], stop=asyncio.Event()), 10)


async def test_a_cancellation_that_a_call_turns_into_a_failure_ends_the_work_all_the_same() -> None:
    """As a gRPC call may that fails in the moment in which it is cancelled."""
    begun = asyncio.Event()

    async def reconcile(key: Key) -> Requeue | None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise Retryable("the call was cancelled") from None
        return None

    cache = filled(added(thing("a", 1)), initial_end(1))
    made = Controller("things", [own(cache)], reconcile, workers=1, backoff=QUICK)
    tasks = [asyncio.create_task(cache.run()), asyncio.create_task(made.run())]
    async with asyncio.timeout(10):
        await begun.wait()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)


async def test_what_fails_in_a_group_of_tasks_does_not_end_its_worker() -> None:
    """A `TaskGroup` leaves the task that waits for it with `cancelling() == 1` on Python 3.11."""
    runs = 0
    often = asyncio.Event()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise Retryable("a conflict")

    async def reconcile(key: Key) -> Requeue | None:
        nonlocal runs
        runs += 1
        if runs == 5:
            often.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            group.create_task(asyncio.sleep(60))
        return None

    cache = filled(added(thing("a", 1)), initial_end(1))
    made = Controller("things", [own(cache)], reconcile, workers=1, backoff=QUICK)
    tasks = [asyncio.create_task(cache.run()), asyncio.create_task(made.run())]
    try:
        async with asyncio.timeout(10):
            await often.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_a_bug_that_ends_one_worker_ends_all_of_them() -> None:
    """Also the one whose call swallows the cancellation that follows."""
    begun = asyncio.Event()

    async def reconcile(key: Key) -> Requeue | None:
        if key.name == "a":
            begun.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise Retryable("the call was cancelled") from None
        await begun.wait()
        return None

    cache = filled(added(thing("a", 1)), added(thing("b", 2)), initial_end(2))
    made = Controller("things", [own(cache)], reconcile, workers=2, backoff=QUICK)
    broken = made.queue.done

    def done(key: Key, after: float | None = None) -> None:
        broken(key, after=after)
        if key.name == "b":
            raise MemoryError("no room")

    made.queue.done = done  # type: ignore[method-assign]
    reading = asyncio.create_task(cache.run())
    try:
        with pytest.raises(ExceptionGroup) as raised:
            await asyncio.wait_for(made.run(), 10)
        assert raised.group_contains(MemoryError, match="no room")
    finally:
        reading.cancel()
        await asyncio.wait([reading])


async def test_a_call_that_is_cancelled_by_somebody_else_is_tried_again() -> None:
    """As gRPC does when a channel is closed under a call: the worker itself is not cancelled."""
    again = asyncio.Event()
    runs = 0

    async def reconcile(key: Key) -> Requeue | None:
        nonlocal runs
        runs += 1
        if runs == 3:
            again.set()
        raise asyncio.CancelledError("channel closed")

    cache = filled(added(thing("a", 1)), initial_end(1))
    made = Controller("things", [own(cache)], reconcile, workers=1, backoff=QUICK)
    tasks = [asyncio.create_task(cache.run()), asyncio.create_task(made.run())]
    try:
        async with asyncio.timeout(10):
            await again.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
