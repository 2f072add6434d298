"""What a driver is asked with, from a record and its class; and how large it says a snapshot is.

Secrets are read when it is asked: they may change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ullage.engines.handles import DRIVER as LONGHORN
from ullage.errors import NotNow, Retryable, Terminal
from ullage.kube.client.client import Client
from ullage.snapshots.backends.base import NO_SECRETS, Backend, Creation, Secrets, VolumeHandle
from ullage.snapshots.binding import hold_of
from ullage.snapshots.class_parameters import SNAPSHOT_ROLES, driver_parameters
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import ASK_AGAIN, Record, Ref
from ullage.snapshots.secrets import find_secrets


def creation_of(lookup: SnapshotLookup, record: Record, secrets: Secrets, *, strict: bool) -> Creation:
    """`strict`: the class must be there. To undo something it need not: the name alone says what is meant."""
    found = lookup.snapshot_class(record.class_name)
    if found is None and record.class_name and strict:
        raise NotNow(f"class {record.class_name} does not exist")
    if found is not None and found.problem is not None and strict:
        raise Terminal(found.problem.message)
    parameters = driver_parameters(found.parameters, roles=SNAPSHOT_ROLES) if found is not None else {}
    volume = VolumeHandle(handle=record.volume, node=record.node)
    hold = hold_of(record, kind=lookup.dialect.records.kind)
    owner = record.ref.namespace
    return Creation(name=record.backend_name, volume=volume, parameters=parameters, secrets=secrets, owner=owner, hold=hold)


async def secrets_of(client: Client, ref: Ref | None) -> Secrets:
    found = await find_secrets(client, ref)
    if ref is not None and found is None:
        raise NotNow(f"secret {ref.namespace}/{ref.name} does not exist")
    return found or NO_SECRETS


async def size_of(
    backends: Mapping[str, Backend], record: Record, secrets: Secrets, *, seconds: float | None = None
) -> str | None:
    """What a snapshot takes, in bytes, as it is written on its record; ASK_AGAIN where that is not known within the time, or
    for now; None where the driver does not tell.

    An engine's snapshot changes whenever one before it is purged: whoever counts those looks at the Engine.
    """
    if record.driver == LONGHORN:
        return None
    try:
        async with asyncio.timeout(seconds):
            size = await backends[record.driver].size(record.handle, secrets=secrets)
    except (Retryable, TimeoutError):
        return ASK_AGAIN
    except Terminal:
        return None
    return None if size is None else str(size)
