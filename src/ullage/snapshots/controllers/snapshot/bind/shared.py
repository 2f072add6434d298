"""Snapshots that were shared with a namespace, and are taken back: claims that wait to be filled from one do not keep it."""

from __future__ import annotations

from collections.abc import Sequence

from ullage.kube.builtin.core import CLAIMS
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.objects import is_deleting
from ullage.snapshots.binding import was_shared
from ullage.snapshots.data_source import has_begun
from ullage.snapshots.model import Record, Snapshot


def is_taken_back(snapshot: Snapshot, record: Record | None) -> bool:
    if record is None or not was_shared(record):
        return False
    return is_deleting(snapshot.meta) and not is_deleting(record.meta)


async def begun_among(client: Client, waiting: Sequence[Key]) -> list[Key]:
    """Of claims that seem to wait, those that are being filled by now: the cache may be behind."""
    found = await client.list(CLAIMS, waiting[0].namespace)
    return [key for one in found.items if has_begun(one) and (key := key_of(one)) in waiting]
