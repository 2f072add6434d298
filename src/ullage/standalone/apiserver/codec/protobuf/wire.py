"""The protobuf wire format: from numbered fields to the dict that the same object would be in JSON.

A message is compiled once into a table of setters, one for each key (number and wire type) that may stand in it. A setter
reads one field from the bytes, puts it into the dict and returns the position behind it. Nothing here knows Kubernetes.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any

from ullage.standalone.apiserver.objects import Json

VARINT, FIXED64, DELIMITED, GROUP, GROUP_END, FIXED32 = range(6)
MAX_DEPTH = 100  # of messages in messages; the deepest that anybody writes by hand are schemas of a dozen levels
_END_OF_BYTES = "unexpected EOF"
_EXPONENT = 1e21  # from here on JSON shows whole numbers as powers of ten

Put = Callable[[Json, bytes, int, int, int], int]  # (into, data, position, end, depth) -> next position
Read = Callable[[bytes, int, int, int], Any]  # (data, start, stop, depth) -> value
Keyed = tuple[int, Put]


class Garbled(ValueError):
    """The bytes are not of the message that they are said to be."""


class TooManyValues(Exception):
    """More values than `at_most` allows: two bytes can stand for an empty object, which takes a hundred in memory."""


class _Room(threading.local):
    """How many values may still be read, in this thread."""

    left = 0


_ROOM = _Room()


def at_most(values: int) -> None:
    """Allows so many values from here on."""
    _ROOM.left = values


def count(values: int) -> None:
    """Takes note of values that were read in another way."""
    _ROOM.left -= values
    if _ROOM.left < 0:
        raise TooManyValues


def varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """An unsigned number of up to 64 bits, and the position behind it."""
    if pos >= end:
        raise Garbled(_END_OF_BYTES)
    byte = data[pos]
    if byte < 0x80:  # nearly all of them
        return byte, pos + 1
    found = byte & 0x7F
    for shift in range(7, 70, 7):
        pos += 1
        if pos >= end:
            raise Garbled(_END_OF_BYTES)
        byte = data[pos]
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found & 0xFFFFFFFFFFFFFFFF, pos + 1
    raise Garbled("proto: integer overflow")


def span(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Where the content of a length-delimited field starts and stops."""
    length, start = varint(data, pos, end)
    stop = start + length
    if stop > end:
        raise Garbled("proto: negative length found during unmarshaling" if length >> 63 else _END_OF_BYTES)
    return start, stop


def int32(raw: int) -> int:
    raw &= 0xFFFFFFFF
    return raw - (1 << 32) if raw >> 31 else raw


def int64(raw: int) -> int:
    return raw - (1 << 64) if raw >> 63 else raw


class Message:
    """A compiled message: its name, for errors, and its setters."""

    __slots__ = ("_names", "_puts", "name")

    def __init__(self, name: str, fields: Iterable[tuple[int, str, Iterable[Keyed]]]) -> None:
        self.name = name
        self._puts: dict[int, Put] = {}
        self._names: dict[int, str] = {}
        for number, field, keyed in fields:
            self._names[number] = field
            self._puts.update((number << 3 | wire, put) for wire, put in keyed)

    def fill(self, into: Json, data: bytes, pos: int, end: int, depth: int) -> None:
        """Reads the bytes into a dict. A field that comes twice is merged or replaced, as protobuf wants it."""
        if depth > MAX_DEPTH:
            raise Garbled(f"exceeded max depth of {MAX_DEPTH} messages")
        puts = self._puts
        room = _ROOM
        while pos < end:
            room.left -= 1
            if room.left < 0:
                raise TooManyValues
            key = data[pos]
            if key < 0x80:
                pos += 1
            else:
                key, pos = varint(data, pos, end)
            put = puts.get(key)
            pos = put(into, data, pos, end, depth) if put is not None else self._unknown(key, data, pos, end)

    def read(self, data: bytes, start: int, stop: int, depth: int) -> Json:
        found: Json = {}
        self.fill(found, data, start, stop, depth + 1)
        return found

    def _unknown(self, key: int, data: bytes, pos: int, end: int) -> int:
        """A field of a later version is skipped; a known one of another wire type is not."""
        number, wire = key >> 3, key & 7
        if wire == GROUP_END:
            raise Garbled(f"proto: {self.name}: wiretype end group for non-group")
        if not 0 < number < 1 << 31:
            raise Garbled(f"proto: {self.name}: illegal tag {int32(number)} (wire type {wire})")
        if number in self._names:
            raise Garbled(f"proto: wrong wireType = {wire} for field {self._names[number]}")
        return _skip(data, pos, end, wire=wire)


def _skip(data: bytes, pos: int, end: int, *, wire: int) -> int:
    """The position behind a field that nobody reads. Groups may hold groups: counted, not recursed into."""
    open_groups = 0
    while True:
        match wire:
            case 0:
                pos = varint(data, pos, end)[1]
            case 1:
                pos += 8
            case 2:
                pos = span(data, pos, end)[1]
            case 3:
                open_groups += 1
            case 4:
                open_groups -= 1
            case 5:
                pos += 4
            case _:
                raise Garbled(f"proto: illegal wireType {wire}")
        if pos > end:
            raise Garbled(_END_OF_BYTES)
        if open_groups == 0:
            return pos
        key, pos = varint(data, pos, end)
        wire = key & 7


# --- setters. `keep` says that JSON shows the field's zero value, too ---


def number(name: str, convert: Callable[[int], int], *, keep: bool) -> list[Keyed]:
    """A whole number or a boolean."""

    def put(into: Json, data: bytes, pos: int, end: int, depth: int) -> int:
        raw, pos = varint(data, pos, end)
        _set(into, name, convert(raw), keep=keep)
        return pos

    return [(VARINT, put)]


def numbers(name: str, convert: Callable[[int], int]) -> list[Keyed]:
    """A list of them: each under a key of its own, or all packed under one."""

    def put(into: Json, data: bytes, pos: int, end: int, depth: int) -> int:
        raw, pos = varint(data, pos, end)
        into.setdefault(name, []).append(convert(raw))
        return pos

    def put_packed(into: Json, data: bytes, pos: int, end: int, depth: int) -> int:
        pos, stop = span(data, pos, end)
        while pos < stop:
            _ROOM.left -= 1
            if _ROOM.left < 0:
                raise TooManyValues
            pos = put(into, data, pos, stop, depth)
        return pos

    return [(VARINT, put), (DELIMITED, put_packed)]


def double(name: str, *, keep: bool) -> list[Keyed]:
    def put(into: Json, data: bytes, pos: int, end: int, depth: int) -> int:
        if pos + 8 > end:
            raise Garbled(_END_OF_BYTES)
        (found,) = struct.unpack_from("<d", data, pos)
        if not math.isfinite(found):
            raise Garbled(f"json: unsupported value: {found}")
        whole = found.is_integer() and abs(found) < _EXPONENT
        _set(into, name, int(found) if whole else found, keep=keep)
        return pos + 8

    return [(FIXED64, put)]


def value(name: str, read: Read, *, keep: bool) -> list[Keyed]:
    """Anything that has a length."""

    def put(into: Json, data: bytes, pos: int, end: int, depth: int) -> int:
        start, stop = span(data, pos, end)
        _set(into, name, read(data, start, stop, depth), keep=keep)
        return stop

    return [(DELIMITED, put)]


def values(name: str, read: Read) -> list[Keyed]:
    """A list of them."""

    def put(into: Json, data: bytes, pos: int, end: int, depth: int) -> int:
        start, stop = span(data, pos, end)
        into.setdefault(name, []).append(read(data, start, stop, depth))
        return stop

    return [(DELIMITED, put)]


def part(name: str, message: Callable[[], Message]) -> list[Keyed]:
    """A message in a message: an object of its own."""

    def put(into: Json, data: bytes, pos: int, end: int, depth: int) -> int:
        start, stop = span(data, pos, end)
        inner = into.setdefault(name, {})
        message().fill(inner, data, start, stop, depth + 1)
        return stop

    return [(DELIMITED, put)]


def inline(message: Callable[[], Message]) -> list[Keyed]:
    """A message whose fields JSON shows among those of the one that holds it."""

    def put(into: Json, data: bytes, pos: int, end: int, depth: int) -> int:
        start, stop = span(data, pos, end)
        message().fill(into, data, start, stop, depth + 1)
        return stop

    return [(DELIMITED, put)]


def mapping(name: str, read: Read) -> list[Keyed]:
    """A map by name: a list of entries, each a message of key and value."""
    entry = Message("Entry", [(1, "key", value("key", text, keep=True)), (2, "value", value("value", read, keep=True))])

    def put(into: Json, data: bytes, pos: int, end: int, depth: int) -> int:
        start, stop = span(data, pos, end)
        found = entry.read(data, start, stop, depth)
        into.setdefault(name, {})[found.get("key", "")] = found["value"] if "value" in found else read(b"", 0, 0, depth)
        return stop

    return [(DELIMITED, put)]


def text(data: bytes, start: int, stop: int, depth: int) -> str:
    """Bytes that are not UTF-8 end up as replacement characters, as they would in the server's JSON."""
    return data[start:stop].decode("utf-8", "replace")


def _set(into: Json, name: str, found: Any, *, keep: bool) -> None:
    if keep or found:
        into[name] = found
    else:
        into.pop(name, None)
