"""How 30,000 objects fit into little memory: what is equal is held once.

Objects of one kind repeat each other: namespaces, volumes, owners, finalizers, label sets. Decoding makes a copy of each; a
pool replaces the copies by one. Values are never changed, so nobody can tell.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import msgspec

from ullage.kube.kinds import Meta

ROOM = 4096  # what a pool remembers; it starts over when that is full, and only sharing is lost
ROOM_ELSEWHERE = 256  # of another cluster, whose administrator may fill it with what is never told twice
LONG = 200  # characters; longer strings are rarely told twice
MANY = 32  # entries; what has more is not remembered, so that a pool is small whatever goes through it

# Different for each object by their nature.
_UNIQUE: dict[type[msgspec.Struct], frozenset[str]] = {Meta: frozenset({"name", "uid", "resource_version"})}
_NOTHING: dict[str, Any] = {}


class Pool:
    """Remembers strings, tuples and mappings that it has seen lately. Not to be used for objects that others hold already."""

    def __init__(self, *, room: int = ROOM) -> None:
        self._room = room
        self._strings: dict[str, str] = {}
        self._tuples: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._mappings: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._fields: dict[type, tuple[str, ...]] = {}

    def compact(self, value: msgspec.Struct, before: msgspec.Struct | None = None) -> None:
        """Replaces what is inside a freshly decoded struct by equal values that were seen before. Where it takes the place of
        another of its type, what is as it was there is taken from there, and not looked through: most changes are small."""
        for name in self._fields.get(type(value)) or self._learn(type(value)):
            inner = getattr(value, name)
            shared = self._share(inner) if before is None else self._kept(inner, getattr(before, name))
            if shared is not inner:
                msgspec.structs.force_setattr(value, name, shared)

    def _kept(self, value: Any, before: Any) -> Any:
        if value == before and type(value) is type(before):
            return before
        if isinstance(value, msgspec.Struct) and type(value) is type(before):
            self.compact(value, before)
            return value
        return self._share(value)

    def _learn(self, kind: type[msgspec.Struct]) -> tuple[str, ...]:
        unique = _UNIQUE.get(kind, frozenset())
        names = self._fields[kind] = tuple(name for name in kind.__struct_fields__ if name not in unique)
        return names

    def _share(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self._string(value)
        if kind is dict:
            return self._mapping(value)
        if kind is tuple:
            return self._tuple(value)
        if isinstance(value, msgspec.Struct):
            self.compact(value)
        return value

    def _string(self, value: str) -> str:
        if not value or len(value) > LONG:
            return value
        if len(self._strings) >= self._room:
            self._strings.clear()
        return self._strings.setdefault(value, value)

    def _tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if not value:
            return value
        inside = tuple(map(self._share, value))
        if not _is_small(inside):
            return inside
        if len(self._tuples) >= self._room:
            self._tuples.clear()
        try:
            return self._tuples.setdefault(inside, inside)
        except TypeError:  # holds a mapping, which cannot be looked up
            return inside

    def _mapping(self, value: dict[str, Any]) -> dict[str, Any]:
        if not value:
            return _NOTHING
        inside = {key: self._share(inner) for key, inner in value.items()}
        if len(inside) > MANY or not all(_is_small(part) for entry in inside.items() for part in entry):
            return inside
        if len(self._mappings) >= self._room:
            self._mappings.clear()
        try:
            return self._mappings.setdefault(tuple(inside.items()), inside)
        except TypeError:
            return inside


def _is_small(value: Any) -> bool:
    """Whether it may stay in a pool after all that had it are gone."""
    if isinstance(value, str):
        return len(value) <= LONG
    if isinstance(value, tuple):
        return len(value) <= MANY and all(map(_is_small, value))
    if isinstance(value, msgspec.Struct):
        return all(_is_small(getattr(value, name)) for name in value.__struct_fields__)
    return value is None or isinstance(value, bool | int | float)


_pauses = 0


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Keeps the garbage collector from walking, again and again, over a heap that only grows. Pauses may overlap."""
    global _pauses
    if _pauses == 0 and not gc.isenabled():
        yield  # somebody else's pause: theirs to end
        return
    _pauses += 1
    gc.disable()
    try:
        yield
    finally:
        _pauses -= 1
        if _pauses == 0:
            gc.enable()
