"""What the store holds and tells: objects at a revision, and changes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec

from ullage.standalone.apiserver.objects import Json

Key = tuple[str, str]  # namespace ("" for cluster-scoped), name


EVENT_BYTES = 256  # what an event takes beside its objects


@dataclass(frozen=True, slots=True)
class Write:
    """An object that is to be stored if its newest version is `expect` (0: it must not exist)."""

    storage: str
    obj: Json
    expect: int


class StoredObject(Protocol):
    """An entry, as far as its readers need to know it."""

    @property
    def data(self) -> bytes: ...

    def obj(self) -> Json: ...


class Entry:
    """One object at one revision. `data` is its JSON, as it is stored and sent."""

    __slots__ = ("data", "key", "rv")

    def __init__(self, key: Key, rv: int, data: bytes) -> None:
        self.key = key
        self.rv = rv
        self.data = data

    def obj(self) -> Json:
        """A copy that the caller may change."""
        found: Json = msgspec.json.decode(self.data)
        return found


class Event:
    """One change: the object after it (for a delete: its last state, at the delete's revision) and before it."""

    __slots__ = ("before", "data", "key", "rv", "type")

    def __init__(self, type: str, key: Key, rv: int, data: bytes, before: bytes | None) -> None:
        self.type = type
        self.key = key
        self.rv = rv
        self.data = data
        self.before = before

    @property
    def size(self) -> int:
        """The memory that it may hold alone. Its objects may be held by others, too; that is not looked into."""
        return len(self.data) + len(self.before or b"") + EVENT_BYTES
