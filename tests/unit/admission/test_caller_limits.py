"""A cluster that asks for too much is told to come again, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.admission.builders import plain_paths, review_body
from tests.unit.admission.test_endpoint import CALLERS, CONFIG_MAP, FAR, NEAR
from ullage.admission.caller_limits import CallerLimits, CallerLoads, CallerRefused
from ullage.admission.endpoint import Endpoint
from ullage.admission.metrics import Metrics
from ullage.kube.read_limits import KIB
from ullage.kube.review import Decision, Hook, Review, Target

LIMITS = CallerLimits(
    reviews=10,
    at_once=3,
    burst=2.0,
    each=16 * KIB,
    largest=64 * KIB,
    held=100 * KIB,
    decoded=200 * KIB,
    shared=200 * KIB,
    held_of_all=400 * KIB,
)
PATHS = {"far": f"/hooks/guard/clusters/far/{FAR}", "near": f"/hooks/guard/clusters/near/{NEAR}", "": "/hooks/ours"}


class HandClock:
    def __init__(self) -> None:
        self.at = 100.0

    def monotonic(self) -> float:
        return self.at

    def now(self) -> Any:
        raise NotImplementedError


class Scene:
    """Hooks that answer once they are let: at first at once."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.let = asyncio.Event()
        self.let.set()
        self.metrics = Metrics()
        self.busy = 0.0  # seconds that the processor has worked
        self.work = 0.0  # and works on before each answer, and after what it waits for
        targets = (Target.of(CONFIG_MAP, "CREATE"),)
        self.endpoint = Endpoint(
            [
                Hook(name="guard", phase="validate", targets=targets, answer=self.answer, elsewhere=True),
                Hook(name="ours", phase="validate", targets=targets, answer=self.answer),
            ],
            paths=plain_paths("ours"),
            metrics=self.metrics,
            clock=self.clock,
            checks={},
            callers=CALLERS,
            limits=LIMITS,
            processor=lambda: self.busy,
        )

    async def answer(self, review: Review) -> Decision:
        self.busy += self.work
        await self.let.wait()
        self.busy += self.work
        return Decision.allow()

    async def ask(self, cluster: str, body: bytes | None = None, *, receive: Any = None) -> tuple[int, dict[bytes, bytes], str]:
        data = review_body() if body is None else body
        sent: list[Any] = []

        async def whole() -> Any:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        length = [(b"content-length", str(len(data)).encode())]
        scope = {"type": "http", "method": "POST", "path": PATHS[cluster], "query_string": b"timeout=10s", "headers": length}
        await self.endpoint(scope, receive or whole, send)
        return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"].decode()

    @contextlib.asynccontextmanager
    async def under_way(self, cluster: str, count: int) -> AsyncIterator[list[asyncio.Task[Any]]]:
        """So many reviews that wait for their answer."""
        self.let.clear()
        asking = [asyncio.create_task(self.ask(cluster)) for _ in range(count)]
        for _ in range(20):
            await asyncio.sleep(0)
        try:
            yield asking
        finally:
            self.let.set()
            await asyncio.gather(*asking)


def padded(size: int) -> bytes:
    return review_body(name="n" * (size - len(review_body())))


async def test_a_flood_is_told_to_come_again_and_others_are_answered() -> None:
    scene = Scene()
    codes = [(await scene.ask("far"))[0] for _ in range(50)]
    assert codes == [200] * 21 + [429] * 29, "two seconds' worth at once, and the one that spends more than there is"
    code, headers, text = await scene.ask("far")
    assert (code, headers[b"retry-after"]) == (429, b"1")
    assert text == (
        "cluster far: more than 10 reviews a second were asked for; large and slow ones count for several; try again\n"
    )
    assert [(await scene.ask(other))[0] for other in ("near", "")] == [200, 200]
    scene.clock.at += 1.0
    assert [(await scene.ask("far"))[0] for _ in range(12)].count(200) == 10
    counted = scene.metrics.registry.get_sample_value(
        "ullage_admission_reviews_total", {"hook": "guard", "result": "throttled"}
    )
    assert counted == 29 + 1 + 2


async def test_a_flood_is_in_the_log_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            for _ in range(50):
                await scene.ask("far")
            scene.clock.at += 40.0
    found = [record for record in caplog.records if record.message == "cluster asks for too much"]
    assert [record.__dict__["cluster"] for record in found] == ["far", "far"]


async def test_large_reviews_count_for_as_many_as_they_are_large() -> None:
    scene = Scene()
    codes = [(await scene.ask("far", padded(40 * KIB)))[0] for _ in range(9)]
    assert codes == [200] * 7 + [429] * 2, "each counts for three"
    _, headers, _ = await scene.ask("far")
    assert headers[b"retry-after"] == b"1"


async def test_reviews_that_have_the_processor_busy_count_for_as_many_as_they_take_long() -> None:
    scene = Scene()
    scene.work = 0.002
    codes = [(await scene.ask("far"))[0] for _ in range(9)]
    assert codes == [200] * 6 + [429] * 3, "each takes as long as four may"
    assert [(await scene.ask(other))[0] for other in ("near", "")] == [200, 200]
    scene.clock.at += 1.0
    assert [(await scene.ask("far"))[0] for _ in range(9)].count(200) == 2, "a hundredth of the processor's time"


async def test_nobody_pays_for_what_others_do_while_he_waits() -> None:
    scene = Scene()
    scene.work = 0.010
    async with scene.under_way("far", 1):
        scene.work = 0.0
        async with scene.under_way("near", 1):
            scene.busy += 5.0
    assert [(await scene.ask("near"))[0] for _ in range(20)] == [200] * 20
    assert [(await scene.ask("far"))[0] for _ in range(20)].count(200) == 11, "its own ten"


async def test_so_many_are_under_way_and_no_more() -> None:
    scene = Scene()
    async with scene.under_way("far", 3) as asking:
        code, headers, text = await scene.ask("far")
        assert (code, headers[b"retry-after"]) == (429, b"1")
        assert text == "cluster far: 3 reviews are under way, and no more are taken; try again\n"
        scene.let.set()
        assert (await scene.ask("near"))[0] == 200
        await asyncio.gather(*asking)
    assert (await scene.ask("far"))[0] == 200


async def test_bodies_that_come_slowly_fill_no_room_but_their_own() -> None:
    scene = Scene()
    go_on = asyncio.Event()

    def slowly() -> Any:
        begins = [{"type": "http.request", "body": b" " * 60 * KIB, "more_body": True}]

        async def receive() -> Any:
            if begins:
                return begins.pop()
            await go_on.wait()
            return {"type": "http.disconnect"}

        return receive

    slow = [asyncio.create_task(scene.ask("far", receive=slowly())) for _ in range(2)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert [one.done() for one in slow] == [False, True], "there is room for one of them"
    assert slow[1].result()[::2] == (429, "cluster far: too many reviews at once; try again\n")
    assert [(await scene.ask(other, padded(60 * KIB)))[0] for other in ("near", "")] == [200, 200]
    go_on.set()
    assert (await slow[0])[::2] == (400, "the client is gone\n")
    assert scene.endpoint._loads._loads["far"].bodies.held == 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(padded(70 * KIB), "a review has at most 65536 bytes", id="too long"),
        pytest.param(
            review_body(object={"metadata": {}, "data": [[]] * 3000}),
            "a review takes at most 0 MiB once it is decoded",
            id="dense",
        ),
    ],
)
async def test_what_is_too_large_is_refused_from_another_cluster(body: bytes, said: str) -> None:
    scene = Scene()
    code, _, text = await scene.ask("far", body)
    assert (code, said in text) == (413, True), text
    assert (await scene.ask("", body))[0] == 200, "our own API server is believed"


async def test_nothing_is_kept_of_clusters_that_ask_no_more() -> None:
    scene = Scene()
    await scene.ask("far")
    scene.clock.at += 10.0
    await scene.ask("near")
    assert list(scene.endpoint._loads._loads) == ["near"]


class Slow:
    """Bodies of many clusters that are begun and not ended."""

    def __init__(self, loads: CallerLoads) -> None:
        self._loads = loads
        self._go_on = asyncio.Event()
        self._tasks: list[asyncio.Task[str]] = []

    async def begin(self, cluster: str, *parts: int) -> asyncio.Task[str]:
        """Sends parts, and no more until it is told to. Why they were not taken; empty: they were."""
        coming = [{"type": "http.request", "body": b" " * part, "more_body": True} for part in parts]

        async def receive() -> Any:
            if coming:
                return coming.pop(0)
            await self._go_on.wait()
            return {"type": "http.request", "body": b"", "more_body": False}

        async def ask() -> str:
            try:
                async with self._loads.body(cluster, receive, declared=0):
                    return ""
            except CallerRefused as error:
                return str(error)

        self._tasks.append(asyncio.create_task(ask()))
        for _ in range(20):
            await asyncio.sleep(0)
        return self._tasks[-1]

    async def end(self) -> list[str]:
        self._go_on.set()
        return await asyncio.gather(*self._tasks)


async def test_bodies_of_many_clusters_that_begin_at_once_have_a_bound_together() -> None:
    loads = CallerLoads(replace(LIMITS, shared=400 * KIB), clock=HandClock())
    slow = Slow(loads)
    for number in range(30):
        await slow.begin(f"c-{number}", 1)  # all of them have begun when the first sends more
    for number in range(30):
        await slow.begin(f"c-{number}", 20 * KIB, 20 * KIB, 15 * KIB)
        assert sum(one.bodies.held for one in loads._loads.values()) <= 400 * KIB
    assert "cluster c-29: too many reviews of all clusters at once; try again" in await slow.end()
    assert (loads._held, sum(one.bodies.held for one in loads._loads.values())) == (0, 0)


async def test_whoever_has_many_clusters_keeps_no_small_review_of_others_out() -> None:
    loads = CallerLoads(LIMITS, clock=HandClock())
    slow = Slow(loads)
    for number in range(12):
        for parts in ((16 * KIB, 40 * KIB), (60 * KIB,), (4 * KIB,)):
            await slow.begin(f"many-{number}", *parts)
    assert loads._held >= 200 * KIB, "they have filled what is for all"
    other = await slow.begin("other", 8 * KIB)
    assert not other.done()
    await slow.end()
    assert other.result() == "", "it was taken"
