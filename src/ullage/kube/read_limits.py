"""What is taken from a server that somebody else administers: how long an answer may be, how fast it is read, how much is held.

Our own API server is believed. Behind the kubeconfig of a user cluster there may be anything: whoever administers it can make
objects without number, or have a program of his own answer. So nothing of what he sends costs more than it says here.

JSON may take many times its length once it is decoded: `[[],[],…]` has three bytes for each list. So a text is weighed before
anybody decodes it, and objects are weighed before they are held: by no less than they take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ullage.clock import Clock
from ullage.kube.token_bucket import TokenBucket

KIB: Final = 1024
MIB: Final = 1024 * KIB

NODE: Final = 96  # bytes, at most, for a list, a mapping, a string, an entry of either, besides its characters
OBJECT: Final = 4 * KIB  # for an object itself, and for what indexes, sums and queues keep of it
# Characters that no API server exceeds. What went is remembered for a while by these.
LONGEST: Final = {"name": 253, "namespace": 63, "uid": 128, "resource_version": 32}

_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """Of one server. Sizes are in bytes."""

    held: int = 256 * MIB  # of all objects, as `object_weight` has it
    answer: int = 16 * MIB  # one answer, such as a page of a list
    line: int = 4 * MIB  # one event of a watch; an object in etcd has 1.5 MiB at most
    decoded: int = 128 * MIB  # what one of them may take while it is decoded, as `text_weight` has it
    error: int = 64 * KIB  # of an answer that is no success
    pages: int = 10_000  # of one list
    seconds: float = 600.0  # that everything may take to come
    rate: int = 16 * MIB  # a second, of all that is read, as `text_weight` has it: what is dense is more work
    burst: int = 64 * MIB  # that may come at once
    behind: float = 120.0  # seconds that a watch may bring more than its rate without a pause; what is held is of before then
    again: float = 10.0  # seconds, at least, until what was too much is read anew
    each: int = 8 * KIB  # that an object or event counts for besides: small ones are work as well

    def bucket(self, clock: Clock) -> TokenBucket:
        return TokenBucket(rate=self.rate, burst=self.burst, clock=clock)


def text_weight(text: bytes | bytearray) -> int:
    """What a JSON text takes at most once it is decoded. Looks at each byte once, and makes nothing."""
    nodes = 2 + text.count(b",") + text.count(b":") + text.count(b"[") + text.count(b"{")
    plain = text.isascii() and b"\\u" not in text
    return (len(text) if plain else 4 * len(text)) + NODE * nodes  # one rare character has all of its string take four each


def object_weight(obj: msgspec.Struct) -> int:
    """What an object takes at most while it is held: of what came, as much as its type has."""
    return OBJECT + text_weight(_encoder.encode(obj))


def shown(count: float) -> str:
    """`256 MiB`, in the units that people read."""
    for unit, size in (("MiB", MIB), ("KiB", KIB)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:.0f} {unit}"
    return f"{count:.0f} bytes"


def overlong(metadata: Any) -> str:
    """The field of an object's metadata that no API server would let through; empty: none."""
    for name, most in LONGEST.items():
        if (length := len(getattr(metadata, name))) > most:
            return f"metadata.{name}: it has {length} characters, more than {most}"
    return ""
