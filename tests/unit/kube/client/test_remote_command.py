"""Commands in containers: how each ends, what is kept of what they print, and what is known when nothing is answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from ullage.errors import Uncertain
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.client.websockets.remote_command import (
    MOST_MESSAGES,
    MOST_PRINTED,
    ExecFlooded,
    ExecLost,
    ExecOutcome,
    ExecRefused,
    ExecRequest,
    ExecTimedOut,
)
from ullage.kube.errors import Forbidden, NotFound

Play = Callable[[web.WebSocketResponse, web.Request], Awaitable[None]]
SUCCESS = {"metadata": {}, "status": "Success"}


def failure(code: int) -> dict[str, object]:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "message": f"exit {code}", "details": {"causes": causes}}


@asynccontextmanager
async def server(play: Play | web.Response, *, protocols: tuple[str, ...] = ("v5.channel.k8s.io",)) -> AsyncIterator[Client]:
    async def answer(request: web.Request) -> web.StreamResponse:
        if isinstance(play, web.Response):
            return play
        found = web.WebSocketResponse(protocols=protocols)
        await found.prepare(request)
        await play(found, request)
        return found

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/exec", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with Client(Config(server=f"http://127.0.0.1:{port}", token="t0ken")) as client:
            yield client
    finally:
        await runner.cleanup()


def asked(*command: str, timeout: float = 5.0, most: int = 4096) -> ExecRequest:
    return ExecRequest(namespace="ns", pod="db-0", container="db", command=command, timeout=timeout, most_output=most)


def saying(status: object, *printed: bytes) -> Play:
    async def play(socket: web.WebSocketResponse, request: web.Request) -> None:
        for one in printed:
            await socket.send_bytes(one)
        await socket.send_bytes(b"\x03" + (status if isinstance(status, bytes) else json.dumps(status).encode()))
        await socket.close()

    return play


@pytest.mark.parametrize(
    ("play", "outcome"),
    [
        pytest.param(saying(SUCCESS), ExecOutcome(0), id="success is exit code 0"),
        pytest.param(saying(failure(7)), ExecOutcome(7), id="the exit code is that of the Status"),
        pytest.param(
            saying(SUCCESS, b"\x01a", b"\x02x", b"\x01b"), ExecOutcome(0, b"ab", b"x"), id="both streams are kept apart"
        ),
        pytest.param(saying(SUCCESS, b"\x01", b"\x03", b""), ExecOutcome(0), id="empty messages say nothing"),
        pytest.param(
            saying(SUCCESS, b"\x09zz", b"\x01a"), ExecOutcome(0, b"a"), id="channels that are not known are passed over"
        ),
        pytest.param(
            saying(SUCCESS, b"\x01" + b"a" * 30, b"\x01b"),
            ExecOutcome(0, b"a" * 16, b"", cut_off=True),
            id="what is printed beyond the bound is dropped",
        ),
    ],
)
async def test_how_a_command_ends(play: Play, outcome: ExecOutcome) -> None:
    async with server(play) as client:
        assert await client.run_command(asked("sync", most=16)) == outcome


async def test_what_is_asked_for() -> None:
    seen: list[web.Request] = []

    async def play(socket: web.WebSocketResponse, request: web.Request) -> None:
        seen.append(request)
        await saying(SUCCESS)(socket, request)

    async with server(play) as client:
        await client.run_command(asked("sh", "-c", "a & b=c"))
    query = seen[0].query
    assert query.getall("command") == ["sh", "-c", "a & b=c"]
    assert (query["container"], query["stdout"], query["stderr"], "stdin" in query) == ("db", "true", "true", False)
    assert seen[0].headers["Authorization"] == "Bearer t0ken"
    assert seen[0].headers["Sec-WebSocket-Protocol"].split(",") == ["v5.channel.k8s.io", "v4.channel.k8s.io"]


async def test_a_server_with_the_older_protocol_will_do() -> None:
    async with server(saying(failure(2)), protocols=("v4.channel.k8s.io",)) as client:
        assert (await client.run_command(asked("x"))).exit_code == 2


def refusal(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        pytest.param(refusal(404, "NotFound", 'pods "db-0" not found'), NotFound, "not found", id="the pod is gone"),
        pytest.param(refusal(403, "Forbidden", "no"), Forbidden, "no", id="we may not"),
        pytest.param(
            refusal(400, "BadRequest", "container x is not valid for pod db-0"),
            ExecRefused,
            "not valid",
            id="no such container",
        ),
        pytest.param(
            refusal(503, "ServiceUnavailable", "no kubelet"), ExecRefused, "no kubelet", id="nobody is there to run it"
        ),
        pytest.param(web.Response(status=200, text="hello"), ExecRefused, "200", id="a server that knows no WebSockets"),
    ],
)
async def test_why_nothing_ran(answer: web.Response, error: type[Exception], said: str) -> None:
    async with server(answer) as client:
        with pytest.raises(error, match=said) as raised:
            await client.run_command(asked("sync"))
    assert not isinstance(raised.value, Uncertain)


async def test_nobody_listens() -> None:
    async with Client(Config(server="http://127.0.0.1:1")) as client:
        with pytest.raises(ExecRefused):
            await client.run_command(asked("sync"))


async def _hang_up(socket: web.WebSocketResponse, request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


async def _farewell(socket: web.WebSocketResponse, request: web.Request) -> None:
    await socket.close()


async def _text(socket: web.WebSocketResponse, request: web.Request) -> None:
    await socket.send_str("hello")
    await socket.close()


@pytest.mark.parametrize(
    "play",
    [
        pytest.param(_hang_up, id="the connection broke"),
        pytest.param(_farewell, id="it was closed without a word"),
        pytest.param(_text, id="something was said that nobody understands"),
        pytest.param(saying(b"{"), id="the Status is cut off"),
        pytest.param(saying(b"\xff\xfe"), id="the Status is no text"),
        pytest.param(saying({"status": "Failure", "message": "OCI runtime exec failed"}), id="the runtime failed"),
        pytest.param(saying({"status": "Failure", "reason": "NonZeroExitCode"}), id="a failure without its code"),
        pytest.param(saying(failure(10**12)), id="a code that none can be"),
        pytest.param(
            saying(b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), id="a Status that is deeper than anybody reads"
        ),
    ],
)
async def test_when_nobody_knows_whether_it_ran(play: Play) -> None:
    async with server(play) as client:
        with pytest.raises(ExecLost, match="sync in container db of pod ns/db-0"):
            await client.run_command(asked("sync"))


def printing(number: int, message: bytes) -> Play:
    """So many messages, and then that it has succeeded."""

    async def play(socket: web.WebSocketResponse, request: web.Request) -> None:
        with contextlib.suppress(ConnectionError):
            for _ in range(number):
                await socket.send_bytes(message)
            await saying(SUCCESS)(socket, request)

    return play


LONG = b"\x01" + b"y" * 2**16


@pytest.mark.parametrize(
    ("number", "message"),
    [
        pytest.param(MOST_PRINTED // 2**16, LONG, id="in long messages"),
        pytest.param(MOST_MESSAGES, b"\x02y", id="letter by letter"),
        pytest.param(MOST_MESSAGES, b"\x09", id="in messages that say nothing"),
    ],
)
async def test_what_a_command_may_print_and_no_more(number: int, message: bytes) -> None:
    async with server(printing(number, message)) as client:
        assert (await client.run_command(asked("yes"))).exit_code == 0
    async with server(printing(number + 1, message)) as client:
        with pytest.raises(ExecFlooded, match=r"yes in container db of pod ns/db-0 prints too much \(1 MiB or 10000 pieces"):
            await client.run_command(asked("yes"))


async def test_a_command_that_prints_without_end_keeps_nobody_waiting() -> None:
    """It is left in a moment, whatever is still on its way: nobody reads on until it says goodbye."""
    gone = asyncio.Event()

    async def play(socket: web.WebSocketResponse, request: web.Request) -> None:
        frames = bytes((0x82, 2, 1, ord("y"))) * 2**14
        transport = request.transport
        assert transport is not None
        while not transport.is_closing():
            if transport.get_write_buffer_size() < 2**20:
                transport.write(frames)
            await asyncio.sleep(0.001)
        gone.set()

    async with server(play) as client:
        with pytest.raises(ExecFlooded):
            await client.run_command(asked("yes", timeout=60))
        await asyncio.wait_for(gone.wait(), 5)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(
            'failed to start exec "c5": OCI runtime exec failed: exec failed: unable to start container process: '
            'exec: "fsfreeze": executable file not found in $PATH: unknown',
            id="runc",
        ),
        pytest.param(
            'starting container process caused "exec: \\"/bin/x\\": stat /bin/x: no such file or directory": unknown',
            id="runc, by its path",
        ),
        pytest.param("executable file `x` not found in $PATH: No such file or directory", id="crun"),
    ],
)
async def test_a_program_that_is_not_there_has_an_exit_code_as_in_a_shell(said: str) -> None:
    """Some runtimes answer with one, and others with an error of their own: that it will never run is known all the same."""
    status = {"status": "Failure", "reason": "InternalError", "message": f"Internal error occurred: {said}", "code": 500}
    async with server(saying(status)) as client:
        outcome = await client.run_command(asked("fsfreeze"))
    assert (outcome.exit_code, said[:40] in outcome.stderr.decode()) == (127, True)


async def test_a_command_that_hangs_is_left_after_its_time() -> None:
    gone = asyncio.Event()

    async def play(socket: web.WebSocketResponse, request: web.Request) -> None:
        await socket.send_bytes(b"\x01begun")
        while (await socket.receive()).type not in (
            aiohttp.WSMsgType.CLOSE,
            aiohttp.WSMsgType.CLOSED,
            aiohttp.WSMsgType.CLOSING,
        ):
            pass
        gone.set()

    async with server(play) as client:
        with pytest.raises(ExecTimedOut, match="has not ended in 0 s"):
            await client.run_command(asked("sleep", timeout=0.05))
        await asyncio.wait_for(gone.wait(), 5)


async def test_a_leader_without_its_lease_runs_nothing() -> None:
    class Lost(Exception):
        pass

    def guard() -> None:
        raise Lost

    async with server(saying(SUCCESS)) as client:
        with pytest.raises(Lost):
            await client.guarded(guard).run_command(asked("sync"))
