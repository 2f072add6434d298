"""What is sent again and what never is; what a guard stops; what errors do not show."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from tests.unit.kube.client.scripted import Scripted, Step, answer, hang_up, silence, status
from ullage.clock import FakeClock
from ullage.kube.client.transport import Call, Retries, Transport, pause_after
from ullage.kube.errors import ApiError, Conflict, Refused, TooManyRequests, Unavailable


class Naps:
    """Sleeps that take no time but are remembered; the clock goes on as if they had."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self.clock = FakeClock()

    async def sleep(self, seconds: float) -> None:
        self.taken.append(seconds)
        self.clock.advance(seconds)


def transport(server: Scripted, naps: Naps | None = None, **more: float) -> Transport:
    naps = naps or Naps()
    return Transport(
        server.config(token="s3cret"),
        user_agent="ullage/test",
        retries=Retries(**more),
        clock=naps.clock,
        sleep=naps.sleep,
        jitter=lambda: 0.0,
    )


BUSY = status(429, "TooManyRequests", Retry_After="2")
STARTING = status(503, "ServiceUnavailable", Retry_After="1")
DOWN = status(503, "ServiceUnavailable")
BROKEN = status(500, "InternalError")
TIMED_OUT = status(500, "ServerTimeout", details={"retryAfterSeconds": 4})
DONE = answer(200, {"ok": True})


@pytest.mark.parametrize(
    ("method", "first", "pauses"),
    [
        pytest.param("GET", BUSY, [2.0], id="a read waits as long as a busy server says"),
        pytest.param("POST", BUSY, [2.0], id="a write does too: 429 says that nothing was done"),
        pytest.param("GET", status(429, ""), [0.25], id="a busy server that names no time is asked soon"),
        pytest.param("PATCH", STARTING, [1.0], id="a write waits for a server that says when it is back"),
        pytest.param("GET", STARTING, [1.0], id="a read waits for a server that says when it is back"),
        pytest.param("GET", DOWN, [0.25], id="a read is repeated on a server that is down"),
        pytest.param("GET", BROKEN, [0.25], id="a read is repeated on a server that fails"),
        pytest.param("GET", TIMED_OUT, [4.0], id="a read waits as long as the details say"),
    ],
)
async def test_sent_again(method: str, first: Step, pauses: list[float]) -> None:
    naps = Naps()
    async with Scripted(first, DONE).running() as server, transport(server, naps) as it:
        assert await it.call(Call(method, "/x", body=b"{}")) == b'{"ok": true}'
        assert [seen.method for seen in server.seen] == [method, method]
        assert naps.taken == pauses


@pytest.mark.parametrize(
    ("method", "step", "code"),
    [
        pytest.param("POST", DOWN, 503, id="a write is not repeated after a 503 that names no time"),
        pytest.param("PUT", BROKEN, 500, id="a write is not repeated after a 500"),
        pytest.param("DELETE", TIMED_OUT, 500, id="a write is not repeated after a storage timeout, whatever time it names"),
        pytest.param("GET", status(404, "NotFound"), 404, id="a read is not repeated when there is nothing"),
        pytest.param("PUT", status(409, "Conflict"), 409, id="a conflict is the caller's to decide"),
    ],
)
async def test_sent_once(method: str, step: Step, code: int) -> None:
    async with Scripted(step).running() as server, transport(server) as it:
        with pytest.raises(ApiError) as caught:
            await it.call(Call(method, "/x", body=b"{}"))
        assert caught.value.code == code
        assert len(server.seen) == 1


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_without_an_answer_is_never_sent_again(method: str) -> None:
    """On a kept connection too, where HTTP libraries like to repeat PUT and DELETE by themselves."""
    async with Scripted(DONE, hang_up, DONE).running() as server, transport(server) as it:
        await it.call(Call(method, "/1", body=b"{}"))
        with pytest.raises(Unavailable) as caught:
            await it.call(Call(method, "/2", body=b"{}"))
        assert caught.value.code == 0
        assert caught.value.sent
        assert [(seen.path, seen.connection) for seen in server.seen] == [("/1", 1), ("/2", 1)]


async def test_a_read_on_a_kept_connection_that_broke_is_sent_again() -> None:
    async with Scripted(DONE, hang_up, DONE).running() as server, transport(server) as it:
        await it.call(Call("GET", "/1"))
        assert await it.call(Call("GET", "/2")) == b'{"ok": true}'
        assert [(seen.path, seen.connection) for seen in server.seen] == [("/1", 1), ("/2", 1), ("/2", 2)]


async def test_connections_are_kept() -> None:
    async with Scripted(DONE).running() as server, transport(server) as it:
        for method in ("GET", "POST", "DELETE", "GET"):
            await it.call(Call(method, "/x", body=b"{}"))
        assert server.connections == 1


async def test_many_requests_at_once_do_not_wait_for_each_other() -> None:
    arrived = asyncio.Event()

    async def all_here(writer: asyncio.StreamWriter) -> None:
        if len(server.seen) == 150:
            arrived.set()
        await arrived.wait()
        await DONE(writer)

    async with Scripted(all_here).running() as server, transport(server) as it:
        await asyncio.gather(*(it.call(Call("POST", f"/{n}", body=b"{}")) for n in range(150)))


async def test_patience_ends() -> None:
    naps = Naps()
    async with Scripted(BUSY).running() as server, transport(server, naps, waiting=7.0) as it:
        with pytest.raises(TooManyRequests) as caught:
            await it.call(Call("GET", "/x"))
        assert naps.taken == [2.0, 2.0, 2.0]
        assert caught.value.retry_after == 2.0


async def test_a_wait_that_is_longer_than_our_patience_is_left_to_the_caller() -> None:
    naps = Naps()
    async with Scripted(status(429, "", Retry_After="600")).running() as server, transport(server, naps) as it:
        with pytest.raises(TooManyRequests) as caught:
            await it.call(Call("GET", "/x"))
        assert (naps.taken, caught.value.retry_after) == ([], 600.0)


async def test_pauses_grow_and_stop_growing() -> None:
    naps = Naps()
    async with Scripted(DOWN).running() as server, transport(server, naps, waiting=25.0) as it:
        with pytest.raises(Unavailable):
            await it.call(Call("GET", "/x"))
        assert naps.taken == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]


async def test_a_server_that_never_answers_is_given_up() -> None:
    async with Scripted(silence).running() as server, transport(server, timeout=0.1) as it:
        with pytest.raises(Unavailable, match=r"^POST /x: no answer in time$") as caught:
            await it.call(Call("POST", "/x", body=b"{}"))
        assert (caught.value.code, caught.value.sent) == (0, True)


async def test_a_server_that_is_not_there() -> None:
    async with Scripted(DONE).running() as server:
        it = transport(server)
    async with it:
        with pytest.raises(Unavailable, match=rf"^POST /x: no connection to 127.0.0.1:{server.port}: ") as caught:
            await it.call(Call("POST", "/x", body=b"{}"))
        assert (caught.value.code, caught.value.sent) == (0, False)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(hang_up, id="no answer at all"),
        pytest.param(answer(200, b'{"ok"', Content_Length="100"), id="half an answer"),
        pytest.param(answer(200, gzip.compress(b"{}" * 500)[:-9], Content_Encoding="gzip"), id="half a gzip"),
        pytest.param(answer(200, b"plain", Content_Encoding="gzip"), id="a gzip that is none"),
    ],
)
async def test_a_broken_answer_is_unavailable(step: Step) -> None:
    async def then_cut(writer: asyncio.StreamWriter) -> None:
        await step(writer)
        writer.close()

    async with Scripted(then_cut).running() as server, transport(server) as it:
        with pytest.raises(Unavailable) as caught:
            await it.call(Call("POST", "/x", body=b"{}"))
        assert caught.value.code == 0


async def test_packed_answers_are_unpacked_however_many_members_they_have() -> None:
    packed = gzip.compress(b'{"a":') + gzip.compress(b"1") + gzip.compress(b"}")
    async with Scripted(answer(200, packed, Content_Encoding="gzip")).running() as server, transport(server) as it:
        assert await it.call(Call("GET", "/x")) == b'{"a":1}'


async def test_a_redirect_is_not_followed() -> None:
    async with Scripted(DONE).running() as other:
        step = answer(307, b"", Location=f"{other.url}/stolen")
        async with Scripted(step).running() as server, transport(server) as it:
            with pytest.raises(Refused):
                await it.call(Call("GET", "/x"))
        assert other.seen == []


class NotNow(Exception):
    pass


async def test_a_guard_that_refuses_stops_the_write_and_nothing_arrives() -> None:
    def guard() -> None:
        raise NotNow

    async with Scripted(DONE).running() as server, transport(server) as it:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(NotNow):
                await it.call(Call(method, "/x", body=b"{}", guard=guard))
            with pytest.raises(NotNow):
                await it.call(Call(method, "/x", guard=guard))
        assert server.seen == []


async def test_a_guard_is_asked_when_the_connection_stands_not_before() -> None:
    """What takes long is connecting; a guard that was asked before that would say yes to a write that leaves too late."""
    asked: list[int] = []
    async with Scripted(DONE).running() as server, transport(server) as it:
        await it.call(Call("POST", "/x", body=b"{}", guard=lambda: asked.append(server.connections)))
    assert asked == [1]


async def test_a_guard_is_asked_again_before_a_write_is_sent_again() -> None:
    naps = Naps()

    def guard() -> None:
        if naps.taken:
            raise NotNow

    async with Scripted(BUSY, DONE).running() as server, transport(server, naps) as it:
        with pytest.raises(NotNow):
            await it.call(Call("POST", "/x", body=b"{}", guard=guard))
        assert len(server.seen) == 1


async def test_reads_ask_no_guard() -> None:
    def guard() -> None:
        raise NotNow

    async with Scripted(DONE).running() as server, transport(server) as it:
        assert await it.call(Call("GET", "/x", guard=guard))


async def test_large_bodies_are_sent_without_a_word() -> None:
    async with Scripted(DONE).running() as server, transport(server) as it:
        await it.call(Call("POST", "/x", body=b"x" * (3 * 2**20)))
        assert len(server.seen[0].body) == 3 * 2**20


async def test_the_servers_warnings_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    step = answer(200, {}, Warning='299 - "v1beta1 is old"')
    async with Scripted(step).running() as server, transport(server) as it:
        await it.call(Call("GET", "/x"))
        await it.call(Call("GET", "/x"))
    assert [record.getMessage() for record in caplog.records] == ["the API server warns: v1beta1 is old"]


@pytest.mark.parametrize("step", [hang_up, silence, BROKEN, status(401, "Unauthorized")])
async def test_errors_show_no_secret(step: Step) -> None:
    async with Scripted(step).running() as server, transport(server, timeout=0.1, waiting=0.0) as it:
        with pytest.raises(ApiError) as caught:
            await it.call(Call("POST", "/x", body=b"hunter2"))
        error: BaseException | None = caught.value
        assert server.seen[0].headers["authorization"] == "Bearer s3cret"
        while error is not None:
            assert "s3cret" not in f"{error!r} {error} {vars(error)}"
            assert "hunter2" not in f"{error!r} {error} {vars(error)}"
            error = error.__cause__


async def test_a_closed_wire_says_so() -> None:
    async with Scripted(DONE).running() as server:
        with pytest.raises(RuntimeError, match="not open"):
            await transport(server).call(Call("GET", "/x"))


async def test_cancelling_a_call_leaves_the_client_usable() -> None:
    async with Scripted(silence, DONE).running() as server, transport(server) as it:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await it.call(Call("POST", "/x", body=b"{}"))
        assert await it.call(Call("POST", "/x", body=b"{}"))


@pytest.mark.parametrize(
    ("error", "reads", "attempt", "pause"),
    [
        pytest.param(Conflict("", code=409), True, 0, None, id="a conflict is the caller's"),
        pytest.param(Unavailable("", code=500), True, 99, 5.0, id="pauses have an end"),
        pytest.param(Unavailable("", code=0), True, 0, None, id="whether to wait for a server that is away is the caller's"),
        pytest.param(Unavailable("", reason="Closed", sent=False), False, 0, 0.0, id="a closed connection is replaced at once"),
        pytest.param(Unavailable("", reason="Closed", sent=False), False, 1, None, id="but only once"),
    ],
)
def test_pauses(error: ApiError, reads: bool, attempt: int, pause: float | None) -> None:
    assert pause_after(error, reads=reads, attempt=attempt) == pause
