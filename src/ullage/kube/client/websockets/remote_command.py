"""A command run in a container, through the API server: exec over a WebSocket, as Kubernetes speaks it.

Each message begins with the number of its channel: 1 is stdout, 2 stderr, and 3 brings the one Status that says how it ended.
The protocols v5 and v4 differ in nothing that is used here: v5 alone can close stdin, and there is none.

Nothing is sent twice: whoever gets no answer does not know whether the command ran, and is told so (`Uncertain`). What a
command prints is kept up to a bound, and the rest read and dropped, up to another one: a pod that prints without end would have
our time, message by message, for as long as its command may take.

    ExecRefused    nothing ran: no such container, or nothing there that would run it
    ExecTimedOut   it was begun, and has not ended: it may go on
    ExecFlooded    it was begun, and prints more than anybody reads: it was left, and may go on
    ExecLost       the connection broke before anybody said how it ended
    NotFound       the pod is gone; Forbidden: we may not; others as they are (`kube/errors.py`)
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final
from urllib.parse import urlencode

import aiohttp
import msgspec

from ullage.errors import NotNow, Uncertain
from ullage.kube.client.transport import Call, Guard, Transport
from ullage.kube.client.websockets.upgrade import FAREWELL_SECONDS, Socket
from ullage.kube.errors import BadRequest, Refused, Unavailable

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
MOST_OUTPUT: Final = 4096  # bytes kept of each of stdout and stderr, unless said otherwise
MOST_PRINTED: Final = 1024 * 1024  # bytes that are read of both together, kept or not
MOST_MESSAGES: Final = 10_000  # that they may come in: each costs time, however short it is
MOST_MESSAGE: Final = 4 * 1024 * 1024  # bytes of one message, at which the connection ends
_STDOUT, _STDERR, _ERROR = 1, 2, 3
_NON_ZERO: Final = "NonZeroExitCode"
_EXIT_CODE: Final = "ExitCode"
_OPEN_SECONDS: Final = 30.0  # for the connection to the container
_AT_ONCE: Final = 256  # messages, before somebody else has a turn: many may have come together
_NOT_FOUND: Final = 127  # the exit code of shells for a program that is not there
# How runtimes say that, of which some have no exit code for it. Whatever else they say may pass.
_NO_PROGRAM: Final = re.compile(
    r"""executable\ file\ (?:\S+\ )?not\ found
    | exec:\ \\?"[^"]*":\ stat\ [^:]*:\ no\ such\ file""",
    re.VERBOSE,
)


class ExecRefused(NotNow):
    """Nothing ran."""


class ExecTimedOut(Uncertain):
    """It was begun and has not ended in time. Nobody has stopped it."""


class ExecFlooded(Uncertain):
    """It was begun, and printed too much. Nobody has stopped it."""


class ExecLost(Uncertain):
    """The connection ended before it was said how the command did."""


@dataclass(frozen=True, slots=True)
class ExecOutcome:
    """How a command ended, and the first bytes of what it printed."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    cut_off: bool = False  # it printed more than that


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    """What is to be run, and where."""

    namespace: str
    pod: str
    container: str
    command: Sequence[str]
    timeout: float  # seconds that the command has, once it is begun
    most_output: int = MOST_OUTPUT

    @property
    def call(self) -> Call:
        asked = [("container", self.container), *(("command", word) for word in self.command)]
        query = urlencode([*asked, ("stdout", "true"), ("stderr", "true")])
        return Call("GET", f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}/exec?{query}")

    @property
    def what(self) -> str:
        return f"{self.command[0]} in container {self.container} of pod {self.namespace}/{self.pod}"


async def run_command(transport: Transport, request: ExecRequest, *, guard: Guard | None = None) -> ExecOutcome:
    """Runs a command to its end. The guard is asked right before the request leaves."""
    try:
        async with asyncio.timeout(_OPEN_SECONDS):
            url = transport.url(request.call)
            socket = await transport.upgrades().open(url, protocols=PROTOCOLS, guard=guard, most_message=MOST_MESSAGE)
    except TimeoutError:
        raise ExecLost(f"{request.what}: no answer in {_OPEN_SECONDS:.0f} s; it may have been run") from None
    except (BadRequest, Refused) as error:
        raise ExecRefused(f"{request.what}: {error}", reason="BadRequest") from error
    except Unavailable as error:
        if error.sent and error.code == 0:
            raise ExecLost(f"{request.what}: {error}; it may have been run") from error
        raise ExecRefused(f"{request.what}: {error}", reason="Unavailable") from error
    output, farewell = _Output(request), FAREWELL_SECONDS
    try:
        async with asyncio.timeout(request.timeout):
            return await output.read(socket)
    except TimeoutError:
        raise ExecTimedOut(f"{request.what} has not ended in {request.timeout:.0f} s") from None
    except ExecFlooded:
        farewell = 0.0
        raise
    finally:
        with contextlib.suppress(TimeoutError):  # the library reads on until the other side says goodbye, too
            async with asyncio.timeout(farewell):
                await socket.close()


class _Output:
    """What came of a command so far."""

    def __init__(self, request: ExecRequest) -> None:
        self._request = request
        self._kept = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self._cut_off = False

    async def read(self, socket: Socket) -> ExecOutcome:
        printed = 0
        for number in count():
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            message = await socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise ExecLost(f"{self._request.what}: the connection ended before it was said how it did")
            first, data = message.data[:1], message.data[1:]
            channel = first[0] if first else 0
            if channel == _ERROR and data:
                return self._ended(data)
            printed += len(data)
            if printed > MOST_PRINTED or number >= MOST_MESSAGES:
                bound = f"{MOST_PRINTED // 2**20} MiB or {MOST_MESSAGES} pieces are read"
                raise ExecFlooded(f"{self._request.what} prints too much ({bound}): it was left; have it print less")
            if channel in self._kept:
                self._keep(self._kept[channel], data)
        raise AssertionError  # counting has no end

    def _keep(self, kept: bytearray, data: bytes) -> None:
        room = self._request.most_output - len(kept)
        self._cut_off |= len(data) > room
        kept += data[: max(0, room)]

    def _ended(self, data: bytes) -> ExecOutcome:
        try:
            status = msgspec.json.decode(data, type=_ExecStatus)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ExecLost(f"{self._request.what}: nobody can read what was said of its end") from None
        code, said = status.exit_code, status.message or ""
        stdout, stderr = (bytes(self._kept[one]) for one in (_STDOUT, _STDERR))
        if code is None and _NO_PROGRAM.search(said):
            code, stderr = _NOT_FOUND, said.encode("utf-8", "replace")[: self._request.most_output]
        if code is None:  # the container's runtime could not begin it, or lost it
            raise ExecLost(f"{self._request.what}: {said or 'it failed, and nothing is said about why'}")
        return ExecOutcome(code, stdout, stderr, self._cut_off)


class _ExecCause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _ExecDetails(msgspec.Struct):
    causes: list[_ExecCause] | None = None


class _ExecStatus(msgspec.Struct):
    """The Status on the error channel."""

    status: str = ""
    reason: str | None = None
    message: str | None = None
    details: _ExecDetails | None = None

    @property
    def exit_code(self) -> int | None:
        if self.status == "Success":
            return 0
        causes = self.details.causes if self.details is not None and self.reason == _NON_ZERO else None
        told = next((one.message for one in causes or () if one.reason == _EXIT_CODE), "")
        return int(told) if told.isdecimal() and len(told) < 10 else None
