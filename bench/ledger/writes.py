"""What one write of a ledger costs the control plane, by the number of its accounts: one after the other, nobody else asks."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime
from typing import Final

from bench.apiserver.wire import Connection
from bench.ledger.maps_slice import CELL, MAPS, account_of
from bench.ledger.meters import cpu_seconds
from bench.ledger.report import aligned, spread
from bench.ledger.ways import Scene, ledger
from ullage.kube.client.client import Client
from ullage.kube.client.codec import MERGE_PATCH
from ullage.kube.client.config import Config
from ullage.ledger.amounts import Cell, Takings
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger
from ullage.ledger.book import Book, Observed
from ullage.ledger.codec import book_of, status_of
from ullage.ledger.limits import NO_MANAGED_FIELDS
from ullage.ledger.service.writes import draft
from ullage.quantity import Quantity

ACCOUNTS: Final = (1, 100, 1000)
KINDS: Final = (MAPS.name, "pods", "machines", "snapshots")
WRITES: Final = 200
ROUNDS: Final = 5
HEADER: Final = ("accounts, 4 kinds", "CPU of kube-apiserver, ms a write", "of etcd", "bytes sent", "to one account")


async def cost_of_writes(scene: Scene) -> str:
    """A table. The least of the rounds is compared: whatever else the machine does only adds to it."""
    admin = await Connection(scene.target).open(scene.target.context())
    spent: dict[int, list[dict[str, float]]] = {number: [] for number in ACCOUNTS}
    sizes: dict[int, int] = {}
    async with Client(Config.load(str(scene.kubeconfig))) as client:
        for number in ACCOUNTS:
            await admin.json("POST", LEDGERS.path(NAMESPACE), ledger(f"cost-{number}", accounts=number))
            path = LEDGERS.path(NAMESPACE, f"cost-{number}")
            await admin.json("PATCH", path, {"metadata": NO_MANAGED_FIELDS}, content_type=MERGE_PATCH)
        for _ in range(ROUNDS):
            for number in ACCOUNTS:
                before = cpu_seconds({name: [pid] for name, pid in scene.pids.items()})
                sizes[number] = await _write(client, f"cost-{number}", accounts=number)
                after = cpu_seconds({name: [pid] for name, pid in scene.pids.items()})
                spent[number].append({name: (after[name] - before[name]) / WRITES * 1e3 for name in after})
    await admin.close()
    rows = [_row(number, spent, sizes[number]) for number in ACCOUNTS]
    return aligned([HEADER, *rows])


async def _write(client: Client, name: str, *, accounts: int) -> int:
    found = await client.get(LEDGERS, name, NAMESPACE)
    now = datetime.now(UTC)
    size = 0
    for number in range(WRITES):
        status = status_of(_counted(book_of(found, now=now), accounts, number, now), found, sources=set(KINDS), now=now)
        wanted = draft(found, status)
        size = len(wanted.body)
        meta = await client.put_status(LEDGERS, found.metadata, wanted.body)
        found = Ledger(metadata=meta, spec=found.spec, status=status)
    return size


def _counted(book: Book, accounts: int, number: int, now: datetime) -> Book:
    """Each kind has pieces in every account; the sums change from write to write."""
    cells = [CELL, *(Cell(account_of(str(one)), CELL.resource) for one in range(accounts - 1))]
    last = max((one.view for one in book.observed.values()), default=0)
    sums = [Takings({cell: Quantity.of(1000 + number + at * len(kind)) for at, cell in enumerate(cells)}) for kind in KINDS]
    return Book.of(
        limits=book.limits,
        observed={kind: Observed(last + 1, now, taken) for kind, taken in zip(KINDS, sums, strict=True)},
        limited=book.limited,
        since=book.since,
        exact_from=book.exact_from,
    )


def _row(number: int, spent: dict[int, list[dict[str, float]]], size: int) -> list[str]:
    def of(number: int, name: str) -> list[float]:
        return [one[name] for one in spent[number]]

    least = min(of(number, "kube-apiserver")) / min(of(1, "kube-apiserver"))
    etcd = statistics.median(of(number, "etcd"))
    return [f"{number:,}", spread(of(number, "kube-apiserver"), 1), f"{etcd:.1f}", f"{size:,}", f"{least:.2f}"]
