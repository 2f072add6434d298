"""How large objects may be, one and all together: etcd's bounds, and what kube-apiserver answers when etcd refuses."""

from __future__ import annotations

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.settings import Limits
from ullage.standalone.apiserver.status import unclassified
from ullage.standalone.apiserver.storage.entries import Event

OBJECT_BYTES = 512  # what an object takes in memory beside its JSON
DELETION_SPACE = 1.05  # of the bound for all objects: a deletion that has to be written down has room when nothing else has


def growth(event: Event) -> int:
    """By how much all objects together grow with an event, in bytes."""
    after = 0 if event.type == "DELETED" else len(event.data) + OBJECT_BYTES
    return after - (len(event.before) + OBJECT_BYTES if event.before is not None else 0)


def check_size(event: Event, obj: Json, *, used: int, limits: Limits) -> None:
    """Raises 500, as kube-apiserver does when etcd refuses: the object is too large, or all together are.

    An object that does not grow may always be written, and one that is being deleted has some room of its own: what is full
    can be emptied.
    """
    if len(event.data) > limits.one and _length(obj) > limits.one:
        raise unclassified("etcdserver: request is too large")
    space = limits.live * (DELETION_SPACE if obj["metadata"].get("deletionTimestamp") else 1)
    grown = growth(event)
    if grown > 0 and used + grown > space:
        raise unclassified("etcdserver: mvcc: database space exceeded")


def _length(value: object) -> int:
    """The bytes of an object without the quotes and escapes of JSON: nearer to what kube-apiserver would send to etcd."""
    if isinstance(value, str):
        return len(value.encode(errors="surrogatepass"))
    if isinstance(value, dict):
        return sum(_length(key) + _length(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(map(_length, value))
    return 1
