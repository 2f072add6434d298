"""Whoever reaches the port can post reviews: their bodies have a size, a time, a sum and a depth."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.admission.builders import plain_paths, review_body
from ullage.admission import endpoint as admission_endpoint
from ullage.admission.endpoint import BODIES, Endpoint
from ullage.admission.metrics import Metrics
from ullage.clock import SystemClock
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.serving.bodies import BodyReader, BodyRefused

CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", Object)
DEEP = 100_000


class Client:
    """Sends the parts and then nothing more, neither an end nor a goodbye."""

    def __init__(self, *parts: bytes, whole: bool) -> None:
        self.parts = list(parts)
        self.whole = whole
        self.asked = 0

    async def receive(self) -> dict[str, Any]:
        self.asked += 1
        if self.parts:
            part = self.parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self.parts) or not self.whole}
        await asyncio.Event().wait()
        raise AssertionError("nobody ends this")


async def looked_at(review: Review) -> Decision:
    review.object_json()
    return Decision.allow()


async def typed(review: Review) -> Decision:
    review.object(CONFIG_MAP)
    return Decision.allow()


async def post(
    client: Client, *, length: int = 0, answer: Callable[[Review], Awaitable[Decision]] = looked_at
) -> tuple[int, bytes]:
    hook = Hook(name="guard", phase="validate", targets=(Target.of(CONFIG_MAP, "CREATE"),), answer=answer)
    endpoint = Endpoint([hook], paths=plain_paths(hook.name), metrics=Metrics(), clock=SystemClock(), checks={})
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-length", str(length).encode())] if length else []
    scope = {"type": "http", "method": "POST", "path": "/hooks/guard", "query_string": b"", "headers": headers}
    await endpoint(scope, client.receive, send)
    return sent[0]["status"], sent[1]["body"]


async def test_a_length_that_is_too_large_is_refused_before_anything_is_read() -> None:
    client = Client(b"x", whole=True)
    code, _ = await post(client, length=BODIES.largest + 1)
    assert (code, client.asked) == (413, 0)


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_endpoint, "BODIES", replace(BODIES, seconds=0.05))
    async with asyncio.timeout(10):
        code, _ = await post(Client(review_body()[:-1], whole=False))
    assert code == 408


async def test_bodies_have_a_sum_and_what_is_done_no_longer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = BodyReader(replace(BODIES, most_at_once=10))
    async with found.body(Client(b"12345678", whole=True).receive, declared=8):
        with pytest.raises(BodyRefused) as refused:
            async with found.body(Client(b"12345678", whole=True).receive, declared=8):
                raise AssertionError("there is no room for it")
        assert refused.value.code == 503
    async with found.body(Client(b"12345678", whole=True).receive, declared=8) as body:
        assert body == b"12345678"
    assert found.held == 0


async def test_a_reader_that_is_stopped_no_longer_counts() -> None:
    found = BodyReader(BODIES)
    client = Client(b"12345678", whole=False)

    async def read() -> None:
        async with found.body(client.receive, declared=0):
            raise AssertionError("it never ends")

    reading = asyncio.create_task(read())
    while client.asked < 2:  # noqa: ASYNC110  the condition is about a count
        await asyncio.sleep(0)
    assert found.held == 8
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert found.held == 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b'{"request":' * DEEP, b"nested too deeply", id="a review in a review in a review"),
        pytest.param(b"[" * BODIES.largest, b"not an AdmissionReview", id="lists"),
        pytest.param(
            review_body().replace(b'"AdmissionReview"', b'"' + b"K" * 1_000_000 + b'"'), b"KKK", id="a kind of a megabyte"
        ),
    ],
)
async def test_a_body_that_is_no_review_is_refused_in_few_words(body: bytes, said: bytes) -> None:
    code, answer = await post(Client(body, whole=True))
    assert code == 400
    assert said in answer
    assert len(answer) < 2_000


@pytest.mark.parametrize("answer", [looked_at, typed])
async def test_an_object_that_is_too_deep_is_refused_and_no_failure(answer: Callable[[Review], Awaitable[Decision]]) -> None:
    deep = b'{"metadata":{"name":"a"},"data":' + b'{"a":' * DEEP + b"1" + b"}" * (DEEP + 1)
    body = review_body(object={"here": 1}).replace(b'{"here":1}', deep)
    code, said = await post(Client(body, whole=True), answer=answer)
    assert code in (200, 400)
    assert b'"allowed":true' not in said or answer is typed
