"""A write of a ledger's status: encoded once, sent without the limits, answered without them.

The API server reads nothing but the status from it, and spec and status share one version: whoever wrote the status on a
version knows the whole object that came of it. So neither side packs and unpacks the limits for a booking.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import msgspec

from ullage.clock import Clock
from ullage.kube.client.codec import encode_status
from ullage.kube.errors import AlreadyExists, Conflict, NotFound, Unavailable
from ullage.kube.kinds import Kind, Meta
from ullage.ledger.api import LEDGERS, Ledger, LedgerStatus
from ullage.ledger.metrics import Metrics

LARGEST: Final = 1_400_000  # bytes of a ledger that is written: etcd refuses what has more than 1.5 MiB with all around it
_SMALL: Final = 64 * 1024  # of a status: whatever the limits are, they are not looked at


class StatusApi(Protocol):
    """What a write needs of a `kube.Client`."""

    async def put_status(self, kind: Kind[Ledger], metadata: Meta, body: bytes) -> Meta: ...


class LedgerApi(StatusApi, Protocol):
    """What is needed of a `kube.Client`."""

    async def find(self, kind: Kind[Ledger], name: str, namespace: str = "") -> Ledger | None: ...

    async def create(self, kind: Kind[Ledger], obj: Ledger) -> Ledger: ...


@dataclass(frozen=True, slots=True)
class Draft:
    """A ledger as it is to be, and what is sent for it."""

    ledger: Ledger
    body: bytes

    @property
    def too_large(self) -> bool:
        """Whether etcd might refuse it."""
        size = len(self.body)
        return size > _SMALL and size + len(msgspec.json.encode(self.ledger.spec)) > LARGEST


def draft(ledger: Ledger, status: LedgerStatus) -> Draft:
    return Draft(msgspec.structs.replace(ledger, status=status), encode_status(LEDGERS, ledger.metadata, status))


async def write(api: StatusApi, wanted: Draft, *, timeout: float, clock: Clock, metrics: Metrics) -> Ledger:
    """The ledger with the version that it got. Raises Conflict or NotFound where the version is no longer that one, and
    Unavailable where there is no answer in time: it is done then, or not."""
    name = wanted.ledger.metadata.name
    metrics.written_bytes.inc(len(wanted.body))
    result: Literal["written", "conflict", "lost"] = "lost"
    began = clock.monotonic()
    try:
        async with asyncio.timeout(timeout):
            metadata = await api.put_status(LEDGERS, wanted.ledger.metadata, wanted.body)
        result = "written"
    except (Conflict, NotFound):
        result = "conflict"
        raise
    except TimeoutError as error:
        raise Unavailable(f"ledger {name}: no answer to a write within {timeout:.0f} s") from error
    finally:
        metrics.writes.labels(result).inc()
        metrics.write_seconds.observe(clock.monotonic() - began)
    return msgspec.structs.replace(wanted.ledger, metadata=metadata)


async def make(api: LedgerApi, name: str, namespace: str, *, timeout: float) -> None:
    """Makes a ledger without limits, unless there is one."""
    try:
        async with asyncio.timeout(timeout):
            await api.create(LEDGERS, Ledger(metadata=Meta(name=name, namespace=namespace)))
    except AlreadyExists:
        return
    except TimeoutError as error:
        raise Unavailable(f"ledger {name} could not be made within {timeout:.0f} s") from error
