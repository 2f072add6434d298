"""Lists what each driver has, at a set interval, and has the records looked at whose snapshots were missing twice in a row.

It is a controller whose keys, the drivers, come back by themselves. A driver that cannot list is not audited; a list that
fails counts for nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ullage.clock import Clock, SystemClock
from ullage.errors import Retryable, Terminal
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.snapshots.backends.base import Backend
from ullage.snapshots.class_parameters import list_secret, stamped_parameters
from ullage.snapshots.controllers.record.audit import rules
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import Record, Ref
from ullage.snapshots.secrets import find_secrets
from ullage.snapshots.volume_queue import RecordKey

logger = logging.getLogger(__name__)

LONGEST_LIST: Final = 3600.0  # seconds: a driver with very many snapshots gives them page by page
_BREATH: Final = 200  # records that are looked at before others get their turn


class SnapshotLister:
    def __init__(
        self,
        client: Client,
        lookups: Sequence[SnapshotLookup],
        backends: Mapping[str, Backend],
        *,
        misses: rules.Misses,
        look: Callable[[RecordKey], None],
        interval: float,
        clock: Clock | None = None,
    ) -> None:
        """`look` has a record looked at, `interval` is in seconds."""
        self._client = client
        self._lookups = tuple(lookups)
        self._backends = backends
        self._misses = misses
        self._look = look
        self._interval = interval
        self._clock = clock or SystemClock()
        self._next: dict[str, float] = {}  # by driver: when it is listed again
        self._silent: set[str] = set()  # drivers that cannot list, and of which that was said

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[str]:
        sources: list[Source[Any, str]] = [
            Source(lookup.records, self._driver_of(lookup), when=lambda old, new: old is None) for lookup in self._lookups
        ]
        name, clock = "snapshot-lists", self._clock
        return Controller(name, sources, self.reconcile, clock=clock, metrics=metrics, longest_run=LONGEST_LIST)

    def _driver_of(self, lookup: SnapshotLookup) -> Any:
        def keys(obj: Any) -> tuple[str, ...]:
            driver = lookup.dialect.read_record(obj).driver
            return (driver,) if driver in self._backends else ()

        return keys

    async def reconcile(self, driver: str) -> Requeue | None:
        now = self._clock.monotonic()
        due = self._next.get(driver, now)
        if due > now:
            return Requeue(due - now)
        self._next[driver] = now + self._interval
        for secret, found in (await self._records(driver, node=self._backends[driver].node)).items():
            try:
                await self._audit(driver, secret, found)
                self._silent.discard(driver)
            except (Retryable, Terminal) as error:
                self._tell(driver, error)
        return Requeue(self._interval)

    def _tell(self, driver: str, error: Exception) -> None:
        if isinstance(error, Retryable):
            logger.warning("snapshots of a driver were not listed", extra={"driver": driver, "error": str(error)})
        elif driver not in self._silent:
            self._silent.add(driver)
            logger.info("a driver cannot list: lost snapshots are not noticed", extra={"driver": driver, "error": str(error)})

    async def _audit(self, driver: str, secret: Ref | None, found: Sequence[tuple[RecordKey, Record]]) -> None:
        secrets = await find_secrets(self._client, secret)
        if secrets is None:
            return  # what cannot be asked is not missing
        handles = frozenset([one.handle async for one in self._backends[driver].list(secrets=secrets)])
        keys = {record.meta.uid: key for key, record in found}
        for record in self._misses.count((record for _, record in found), handles):
            self._look(keys[record.meta.uid])

    async def _records(self, driver: str, *, node: str) -> dict[Ref | None, list[tuple[RecordKey, Record]]]:
        """Those to audit, by the Secret that a list needs."""
        found: dict[Ref | None, list[tuple[RecordKey, Record]]] = defaultdict(list)
        for lookup in self._lookups:
            for number, obj in enumerate(lookup.records.items()):
                if number % _BREATH == 0:
                    await asyncio.sleep(0)
                record = lookup.dialect.read_record(obj)
                if record.driver != driver or not rules.is_audited(record) or not rules.is_here(record, node=node):
                    continue
                chosen = lookup.snapshot_class(record.class_name)
                if chosen is None and record.class_name and stamped_parameters(record) is None:
                    continue  # which Secret a list needs is not known any more
                found[list_secret(record, chosen)].append((RecordKey(lookup.dialect.name, record.meta.name), record))
        return found
