"""Objects by key and by whatever else they are looked up by.

A change costs the number of index values that the object has, whatever the number of objects. An index value that only one
object has costs no container of its own: with 30,000 objects that is most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from ullage.kube.kinds import Object

T = TypeVar("T", bound=Object)


class Key(NamedTuple):
    """Which object of a kind. The namespace is empty for kinds that live in none."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Object) -> Key:
    return Key(obj.metadata.namespace, obj.metadata.name)


Values = Callable[[T], Iterable[str]]  # what an object is found under: nothing, one value, or many
_Bucket = Key | dict[Key, None]


class Index(Generic[T]):
    """One way to look objects up: from a value to the keys of the objects that have it, in the order they got it."""

    def __init__(self, values: Values[T]) -> None:
        self._values = values
        self._buckets: dict[str, _Bucket] = {}

    def move(self, key: Key, old: T | None, new: T | None) -> None:
        before = () if old is None else tuple(self._values(old))
        after = () if new is None else tuple(self._values(new))
        if before == after:
            return
        for value in before:
            if value not in after:
                self._drop(value, key)
        for value in after:
            if value not in before:
                self._put(value, key)

    def keys(self, value: str) -> Iterable[Key]:
        bucket = self._buckets.get(value)
        if bucket is None:
            return ()
        return (bucket,) if isinstance(bucket, Key) else bucket

    def values(self) -> Iterable[str]:
        """The values that some object has now."""
        return self._buckets.keys()

    def _put(self, value: str, key: Key) -> None:
        bucket = self._buckets.get(value)
        if bucket is None:
            self._buckets[value] = key
        elif isinstance(bucket, dict):
            bucket[key] = None
        elif bucket != key:
            self._buckets[value] = {bucket: None, key: None}

    def _drop(self, value: str, key: Key) -> None:
        bucket = self._buckets.get(value)
        if isinstance(bucket, dict):
            bucket.pop(key, None)
            if not bucket:
                del self._buckets[value]
        elif bucket == key:
            del self._buckets[value]


class Indexer(Generic[T]):
    """The objects of one kind with their indexes. Knows nothing of where they come from."""

    def __init__(self) -> None:
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, Index[T]] = {}

    def index(self, name: str, values: Values[T]) -> None:
        if name in self._indexes:
            raise ValueError(f"there is an index {name!r} already")
        index = self._indexes[name] = Index(values)
        for key, obj in self._objects.items():
            index.move(key, None, obj)

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def by(self, name: str, value: str) -> list[T]:
        return [self._objects[key] for key in self._indexes[name].keys(value)]

    def values(self, name: str) -> list[str]:
        return list(self._indexes[name].values())

    def put(self, key: Key, new: T | None) -> T | None:
        """Puts an object in its place, or takes it away; returns the one that was there."""
        old = self._objects.get(key)
        if new is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = new
        for index in self._indexes.values():
            index.move(key, old, new)
        return old

    def all_keys(self) -> list[Key]:
        return list(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))
