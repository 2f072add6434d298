"""The connection to a driver: one Unix socket on this machine.

A driver may start later than we do, be restarted, and put a new socket in the old one's place. So a call first waits a little
for the connection; where there is none, the error names the socket, which a bare gRPC error does not.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import grpc.aio

from ullage.errors import BadInput, Uncertain
from ullage.rpc import channel_options, checked_socket

CONNECT_SECONDS = 3.0
_OPTIONS = channel_options(max_receive=64 * 1024 * 1024)  # drivers that do not page send everything at once


def socket_path(given: str, *, where: str = "--csi-address") -> Path:
    """The path in `unix:///run/csi/socket`, `unix:/run/csi/socket` or `/run/csi/socket`."""
    text = given
    for prefix in ("unix://", "unix:"):
        if given.startswith(prefix):
            text = given.removeprefix(prefix)
            break
    if not text.startswith("/"):
        raise BadInput(where, given, "it has to be the absolute path of a socket, such as unix:///run/csi/socket")
    return checked_socket(Path(text), where=where, given=given)


class Channel:
    """A connection that is made when it is first needed, and made again whenever it breaks."""

    def __init__(self, path: Path, *, connect_timeout: float = CONNECT_SECONDS) -> None:
        self.path = path
        self._connect_timeout = connect_timeout
        self.changed = True  # whether another driver may have answered since this was last set to False
        self._channel: grpc.aio.Channel | None = None

    async def opened(self, *, driver: str) -> grpc.aio.Channel:
        """The channel, once it is connected. `driver` is the one that is expected, for the error."""
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
