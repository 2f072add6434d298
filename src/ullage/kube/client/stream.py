"""A watch's bytes, on their way from the socket to lines: unpacked and split by hand.

Libraries' line readers give up at 64 KiB or so, and an object may be 1.5 MiB; and API servers send a compressed watch as one
gzip member per flush, at the end of which many readers stop.
"""

from __future__ import annotations

import zlib

GZIP = 16 + zlib.MAX_WBITS
SLICE = 8192  # bounds what is copied per member where many small ones arrive together


class Gunzip:
    """Unpacks a gzip stream of any number of members, as far as it has come."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(GZIP)

    def feed(self, data: bytes) -> bytes:
        """What can be read by now. Raises `zlib.error` on what is no gzip."""
        parts = []
        for start in range(0, len(data), SLICE):
            rest = data[start : start + SLICE]
            while rest:
                parts.append(self._member.decompress(rest))
                if not self._member.eof:
                    break
                rest = self._member.unused_data
                self._member = zlib.decompressobj(GZIP)
        return b"".join(parts)


class Lines:
    """Cuts a stream into lines of any length. Each byte is looked at once, however small the pieces are."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete by now, without their ends."""
        if b"\n" not in data:
            if data:
                self._begun.append(data)
            return []
        first, *lines = data.split(b"\n")
        if self._begun:
            first = b"".join((*self._begun, first))
        self._begun = [lines[-1]] if lines[-1] else []
        return [line for line in (first, *lines[:-1]) if line and not line.isspace()]

    @property
    def unfinished(self) -> bool:
        """Whether a line has begun that has not ended."""
        return bool(self._begun)
