"""What is measured inside the processes of the slice, and what /proc tells about all of them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from prometheus_client import Histogram

from ullage.http1 import BoundedProtocol
from ullage.ledger.api import Ledger
from ullage.ledger.metrics import Metrics
from ullage.ledger.packing.pending import decode

TICKS = os.sysconf("SC_CLK_TCK")


class _Told(Histogram):
    """A histogram that passes on what it is shown: Prometheus keeps buckets only."""

    def __init__(self, name: str, told: Callable[[float], None]) -> None:
        super().__init__(name, name, registry=None)
        self.told = told

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        self.told(amount)


class Recorder(Metrics):
    """The ledger's metrics, with every write kept: how long the API took, and how many decisions it carried (0: conflict)."""

    def __init__(self) -> None:
        super().__init__()
        self._writes: list[tuple[float, int]] = []
        self.write_seconds = _Told("write", lambda seconds: self._writes.append((seconds, 0)))
        self.batch = _Told("batch", self._carried)

    def _carried(self, size: float) -> None:
        """A write's size is told right after its time, with nothing in between."""
        self._writes[-1] = (self._writes[-1][0], int(size))

    def report(self) -> dict[str, object]:
        """Everything since the start; writes since the last report."""
        writes, self._writes = self._writes, []
        return {
            "writes": writes,
            "decisions": self._value("ullage_ledger_decisions_total", result="allowed"),
            "seconds": self._value("ullage_ledger_decision_seconds_sum", result="allowed"),
            "bytes": self._value("ullage_ledger_written_bytes_total"),
            "reads": self._value("ullage_ledger_reads_total"),
            "conflicts": self._value("ullage_ledger_writes_total", result="conflict"),
            "lost": self._value("ullage_ledger_writes_total", result="lost"),
            "folds": self._value("ullage_ledger_folds_total"),
        }

    def _value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


class Lateness:
    """How long attempts stay pending in one ledger: from the version that has one first to the first that has it no more.

    An attempt is booked before its object is made, so this is never less than the age of an object that is not counted yet.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._since: dict[str, float] = {}
        self._left: list[float] = []
        self._entries = self._bytes = 0

    def change(self, old: Ledger | None, new: Ledger | None) -> None:
        if new is None or new.metadata.name != self._name:
            return
        now = time.monotonic()
        pending = decode(new.status.pending, ledger=self._name)
        uids = {uid for slot in pending.values() for uid in slot.attempts}
        self._left += [now - self._since[uid] for uid in self._since.keys() - uids]
        self._since = {uid: self._since.get(uid, now) for uid in uids}
        self._entries = max(self._entries, len(uids))
        self._bytes = max(self._bytes, len(new.status.pending))

    def report(self) -> dict[str, object]:
        """Since the last report; the age of what is pending now counts too, so that nothing hides by never leaving."""
        left, entries, size = self._left, self._entries, self._bytes
        self._left, self._entries, self._bytes = [], 0, 0
        now = time.monotonic()
        return {
            "late": left,
            "oldest": max((now - one for one in self._since.values()), default=0.0),
            "entries": entries,
            "bytes": size,
        }


def cpu_seconds(pids: Mapping[str, list[int]]) -> dict[str, float]:
    """Processor time of groups of processes since their start."""
    return {name: sum(_cpu(pid) for pid in group) for name, group in pids.items()}


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def machine_seconds() -> float:
    """Processor time of everything on this machine since its start, what the host took away included."""
    user, nice, system, _idle, _wait, *rest = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9])
    return (user + nice + system + sum(rest)) / TICKS


class Connections:
    """How many connections were opened to this process, by whoever calls the webhook."""

    def __init__(self) -> None:
        self.opened = 0
        made = BoundedProtocol.connection_made

        def counted(protocol: BoundedProtocol, transport: asyncio.Transport) -> None:
            self.opened += 1
            made(protocol, transport)

        BoundedProtocol.connection_made = counted  # type: ignore[method-assign]  # of this process alone, which is a benchmark
