"""Connections of a port that people reach: whoever comes is a stranger until a request has shown a token.

Bounds are narrower than elsewhere (`http1`). Where there are too many connections, the one that has been idle for longest goes,
never one that is being answered: a flood of strangers cannot keep out whoever has something to ask for.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final, cast

from ullage.http1 import BoundedProtocol, Bounds

MOST_CONNECTIONS: Final = 512


class PublicConnection(BoundedProtocol):
    """One connection."""

    bounds: ClassVar = Bounds(
        head_bytes=64 * 1024,  # a token with hundreds of groups has some 20 KiB
        head_seconds=10.0,
        headers=200,
        stalled_seconds=20.0,
    )

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._make_room()

    def _make_room(self) -> None:
        others = cast("set[PublicConnection]", self.connections)
        if len(others) <= MOST_CONNECTIONS:
            return
        idle = [one for one in others if not one._is_answering() and not one.transport.is_closing()]
        min(idle, key=lambda one: one._since, default=self).transport.abort()
