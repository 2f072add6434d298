"""A command run in a container, through the API server: exec over a WebSocket, as Kubernetes speaks it.

Each message begins with the number of its channel: 1 is stdout, 2 stderr, and 3 brings the one Status that says how it ended.
The protocols v5 and v4 differ in nothing that is used here: v5 alone can close stdin, and there is none.

Nothing is sent twice: whoever gets no answer does not know whether the command ran, and is told so (`Uncertain`). What a
command prints is kept up to a bound, and the rest read and dropped: it would block otherwise.

    ExecRefused    nothing ran: no such container, or nothing there that would run it
    ExecTimedOut   it was begun, and has not ended: it may go on
    ExecLost       the connection broke before anybody said how it ended
    NotFound       the pod is gone; Forbidden: we may not; others as they are (`kube/errors.py`)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

import aiohttp
import msgspec

from ullage.errors import NotNow, Uncertain
from ullage.kube.client.transport import Call, Guard, Transport
from ullage.kube.client.websockets.upgrade import Socket
from ullage.kube.errors import BadRequest, Refused, Unavailable

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
MOST_OUTPUT: Final = 4096  # bytes kept of each of stdout and stderr, unless said otherwise
MOST_MESSAGE: Final = 4 * 1024 * 1024  # bytes of one message, at which the connection ends
_STDOUT, _STDERR, _ERROR = 1, 2, 3
_NON_ZERO: Final = "NonZeroExitCode"
_EXIT_CODE: Final = "ExitCode"
_OPEN_SECONDS: Final = 30.0  # for the connection to the container


class ExecRefused(NotNow):
    """Nothing ran."""


class ExecTimedOut(Uncertain):
    """It was begun and has not ended in time. Nobody has stopped it."""


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
    output = _Output(request)
    try:
        async with asyncio.timeout(request.timeout):
            return await output.read(socket)
    except TimeoutError:
        raise ExecTimedOut(f"{request.what} has not ended in {request.timeout:.0f} s") from None
    finally:
        await socket.close()


class _Output:
    """What came of a command so far."""

    def __init__(self, request: ExecRequest) -> None:
        self._request = request
        self._kept = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self._cut_off = False

    async def read(self, socket: Socket) -> ExecOutcome:
        while True:
            message = await socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise ExecLost(f"{self._request.what}: the connection ended before it was said how it did")
            channel, data = message.data[:1], message.data[1:]
            number = channel[0] if channel else 0
            if number == _ERROR and data:
                return self._ended(data)
            if number in self._kept:
                self._keep(self._kept[number], data)

    def _keep(self, kept: bytearray, data: bytes) -> None:
        room = self._request.most_output - len(kept)
        self._cut_off |= len(data) > room
        kept += data[: max(0, room)]

    def _ended(self, data: bytes) -> ExecOutcome:
        try:
            status = msgspec.json.decode(data, type=_ExecStatus)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ExecLost(f"{self._request.what}: nobody can read what was said of its end") from None
        code = status.exit_code
        if code is None:  # the container's runtime could not begin it, or lost it
            raise ExecLost(f"{self._request.what}: {status.message or 'it failed, and nothing is said about why'}")
        stdout, stderr = (bytes(self._kept[one]) for one in (_STDOUT, _STDERR))
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
