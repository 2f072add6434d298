"""The way to a driver: one socket on this machine, and whether anybody listens there.

A driver may come later than we do, be restarted, and put a new socket in the old one's place. So a call first waits a little
until the way is open; if it stays shut, the error names the socket, which a bare gRPC error does not.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import grpc.aio

from ullage.errors import BadInput
from ullage.snapshots.backends.base import Uncertain

CONNECT_SECONDS = 3.0
_LONGEST_PATH = 107  # bytes, the kernel's limit for a socket's name
_OPTIONS = (
    ("grpc.default_authority", "localhost"),  # else it is the socket's path, which drivers written in Go reject
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # how long one attempt may take: a busy machine is slow to say hello
    ("grpc.max_reconnect_backoff_ms", 1000),  # a driver that is back should not wait for us for minutes
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),  # drivers that do not page send everything at once
)


def socket_path(given: str, *, where: str = "--csi-address") -> Path:
    """The path in `unix:///run/csi/socket`, `unix:/run/csi/socket` or `/run/csi/socket`."""
    text = given
    for prefix in ("unix://", "unix:"):
        if given.startswith(prefix):
            text = given.removeprefix(prefix)
            break
    if not text.startswith("/"):
        raise BadInput(where, given, "it has to be the absolute path of a socket, such as unix:///run/csi/socket")
    if len(text.encode()) > _LONGEST_PATH:
        raise BadInput(where, given, f"the path of a socket has {_LONGEST_PATH} bytes at most, this one {len(text.encode())}")
    return Path(text)


class Channel:
    """A connection that is made when it is first needed, and made again whenever it breaks."""

    def __init__(self, path: Path, *, connect_timeout: float = CONNECT_SECONDS) -> None:
        self.path = path
        self._connect_timeout = connect_timeout
        self.changed = True  # whether somebody else may be at the other end since this was last set to False
        self._channel: grpc.aio.Channel | None = None

    async def opened(self, *, driver: str) -> grpc.aio.Channel:
        """The channel, with somebody at its other end. `driver` is who we hope for, for the error."""
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(f"unix:{self.path}", options=_OPTIONS)
        if self._channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return self._channel
        self.changed = True
        if not self.path.exists():  # waiting is for drivers that are starting; this one is not
            raise Uncertain(f"{driver}: there is no socket {self.path}: is the driver running?")
        try:
            await asyncio.wait_for(self._channel.channel_ready(), self._connect_timeout)
        except TimeoutError:
            raise Uncertain(f"{driver}: nobody answers on socket {self.path} within {self._connect_timeout:g} s") from None
        return self._channel

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
