"""A connection that is handed through to another server: its bytes there, the other's back, as they come.

Nothing is kept on the way: whoever is slow to read has the other side wait. A side that ends ends the other, once what it sent
is delivered; TLS knows no half of a connection. There is a number of them, for all and for each user.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from ullage.standalone.apiserver.request.answers import Tunnel
from ullage.standalone.apiserver.status import ApiError, internal_error

CONNECT_SECONDS: Final = 10.0
MOST_HEAD: Final = 64 * 1024  # bytes of the other server's answer, up to its end or to the end of its headers
MOST_TUNNELS: Final = 400
MOST_OF_ONE: Final = 100  # of one user
_SWITCHING: Final = b"101"
_SHOWN: Final = 500  # characters of an answer that is no upgrade


class NearEnd(Protocol):
    """The client's connection."""

    def take_over(self, far: FarEnd) -> bool:
        """From now on it gives what it receives to the other end. False: it is gone."""

    def forward(self, data: bytes) -> None: ...

    def hold(self, *, back: bool) -> None:
        """Whether to read on: the other end is slow."""

    def finish(self) -> None:
        """The other end is gone: what was sent is delivered, then it ends."""


class FarEnd(asyncio.Protocol):
    """The connection to the other server."""

    def __init__(self, near: NearEnd) -> None:
        self._near = near
        self._joined = self._lost = False
        self._head = bytearray()
        self._answered = asyncio.get_running_loop().create_future()
        self.gone: Callable[[], None] = lambda: None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if self._joined:
            self._near.forward(data)
            return
        self._head += data
        if b"\r\n\r\n" in self._head or len(self._head) > MOST_HEAD:
            self._answer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._answer()
        self.gone()
        if self._joined:
            self._near.finish()

    def pause_writing(self) -> None:
        self._near.hold(back=True)

    def resume_writing(self) -> None:
        self._near.hold(back=False)

    def _answer(self) -> None:
        if not self._answered.done():
            self._answered.set_result(None)
            if self.transport is not None and not self.transport.is_closing():
                self.transport.pause_reading()

    async def head(self) -> bytes:
        """The other server's answer, to the end of its headers at least."""
        await self._answered
        return bytes(self._head)

    def join(self) -> bool:
        """The two are one connection from now on: first what was answered. A short command may be over by then. False: the near
        end is gone."""
        if not self._near.take_over(self):
            return False
        self._joined = True
        self._near.forward(bytes(self._head))
        self._head.clear()
        if self._lost:
            self._near.finish()
        else:
            self.hold(back=False)
        return True

    # --- what the near end says ---

    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def hold(self, *, back: bool) -> None:
        if self.transport is not None and not self.transport.is_closing():
            (self.transport.pause_reading if back else self.transport.resume_reading)()

    def end(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class Tunnels:
    """All that are open."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()

    async def open(self, tunnel: Tunnel, near: NearEnd) -> None:
        """Returns when the two are joined. Raises ApiError where the other server is not there, or does not want to."""
        if self._of.total() >= MOST_TUNNELS or self._of[tunnel.user] >= MOST_OF_ONE:
            raise ApiError(429, "TooManyRequests", "too many commands are running in pods: try again when some have ended")
        far = FarEnd(near)
        self._of[tunnel.user] += 1
        far.gone = lambda: self._part(tunnel.user)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._connect(tunnel, far)
                head = await far.head()
        except (OSError, TimeoutError) as error:
            self._give_up(far, tunnel.user)
            raise internal_error(f"error dialing backend: {type(error).__name__}") from error
        except BaseException:
            self._give_up(far, tunnel.user)
            raise
        if head.partition(b"\r\n")[0].split(b" ", 2)[1:2] != [_SWITCHING]:
            far.end()
            raise _refusal(head)
        if not far.join():
            far.end()

    async def _connect(self, tunnel: Tunnel, far: FarEnd) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: far, tunnel.host, tunnel.port, ssl=tunnel.context, server_hostname="")
        assert far.transport is not None
        certificate = far.transport.get_extra_info("ssl_object").getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(hashlib.sha256(certificate).hexdigest(), tunnel.fingerprint):
            raise internal_error("error dialing backend: its certificate is not the one that its Node names")
        lines = [f"GET {tunnel.target} HTTP/1.1", f"host: {tunnel.host}:{tunnel.port}"]
        lines += [f"{name}: {value}" for name, value in tunnel.headers]
        far.write("\r\n".join((*lines, "", "")).encode("latin-1"))

    def _give_up(self, far: FarEnd, user: str) -> None:
        if far.transport is None:
            self._part(user)
        else:
            far.end()

    def _part(self, user: str) -> None:
        self._of[user] -= 1
        if not self._of[user]:
            del self._of[user]


def _refusal(head: bytes) -> ApiError:
    """What the other server said instead. A redirect could lead anywhere, and is not followed."""
    line, body = head.partition(b"\r\n")[0], head.partition(b"\r\n\r\n")[2]
    code = 0
    with contextlib.suppress(ValueError, IndexError):
        code = int(line.split(b" ", 2)[1])
    text = " ".join(body.decode("utf-8", "replace").split())[:_SHOWN]
    if not 400 <= code < 600:
        return internal_error(f"the kubelet answered {code or 'nothing'}, which is no upgrade")
    reasons = {400: "BadRequest", 403: "Forbidden", 404: "NotFound"}
    return ApiError(code, reasons.get(code, "InternalError"), text or f"the kubelet answered {code}")
