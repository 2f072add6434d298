"""Values as strings: a digit for the version of the encoding, then base64 (URL alphabet, no padding) of a zlib stream of
MessagePack.

The API server walks through every cell of a typed map several times a write, and its time grows with their number; a string
of some KiB costs it nearly nothing. Nothing is accepted but what was written: what cannot be read exactly would have to be
guessed, and a guess may overshoot.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from ullage.errors import Terminal

T = TypeVar("T")
R = TypeVar("R")

_LARGEST: Final = 16 << 20  # bytes once inflated: far more than an API object may have, far less than hurts


class PackedError(Terminal):
    """A string that is not what was written. Says which ledger has it, and how to go on."""

    def __init__(self, ledger: str, field: str, problem: str) -> None:
        remedy = f"`ullage ledger rebuild {ledger}` empties it and counts anew"
        super().__init__(f"ledger {ledger}: {field} cannot be read: {problem}; {remedy}")


class Packing(Generic[T]):
    """How one field is packed. `columns` is the type that its MessagePack must have."""

    def __init__(self, field: str, version: str, columns: type[T]) -> None:
        self.field = field
        self.version = version
        self._decoder = msgspec.msgpack.Decoder(columns)

    def pack(self, columns: object) -> str:
        packed = zlib.compress(msgspec.msgpack.encode(columns))
        return self.version + base64.urlsafe_b64encode(packed).decode().rstrip("=")

    def unpack(self, text: str, make: Callable[[T], R], *, ledger: str) -> R:
        """What `make` makes of the columns. Whatever cannot be read, or `make` refuses, is an error that names the ledger."""
        if text[0] != self.version:
            known = f"version {text[0]!r} of the encoding is not known here, only {self.version!r}"
            raise PackedError(ledger, self.field, known)
        try:
            return make(self._decoder.decode(_inflated(text[1:])))
        except (ValueError, LookupError, msgspec.DecodeError, zlib.error) as error:
            raise PackedError(ledger, self.field, str(error)) from error


def _inflated(text: str) -> bytes:
    stream = zlib.decompressobj()
    packed = stream.decompress(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True), _LARGEST)
    if not stream.eof or stream.unused_data:
        raise ValueError("the stream does not end where it should")
    return packed
