"""From the annotations of a Namespace to the limits of its ledger. Keys are namespaces.

The ledger is made with the first share, and stays when the last goes, since it counts: it goes with its namespace, which is the
business of snapshot space. Where the annotations cannot be read what holds goes on holding, and an Event says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ullage.headroom.accounts import ABOUT
from ullage.headroom.namespaces import NOT_OURS, marks_for
from ullage.headroom.shares import limits_of, read_shares
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import ObjectClient
from ullage.kube.controller.controller import Controller, Source, own
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Object
from ullage.kube.metrics import Metrics
from ullage.kube.slices import Write
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.keys import ledger_name, namespace_of
from ullage.ledger.limits import has_limits
from ullage.ledger.service.limits import set_limits

WATCHES: Final = (NAMESPACES, LEDGERS)
WRITES: Final = (Write(LEDGERS, ("create", "patch")), Write(NAMESPACES, ("patch",)))
UNREADABLE: Final = Reason("InvalidQuota", type="Warning")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCaches:
    namespaces: Cache[Object]
    ledgers: Cache[Ledger]


class ShareLimits:
    """The controller of shares."""

    def __init__(self, client: ObjectClient, caches: LimitCaches, *, recorder: EventRecorder) -> None:
        self._client = client
        self._caches = caches
        self._recorder = recorder

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            own(self._caches.namespaces),
            Source(self._caches.ledgers, _of_ledger, when=_other_limits),
        ]
        return Controller("headroom-limits", sources, self.reconcile, metrics=metrics)

    async def reconcile(self, key: Key) -> None:
        namespace = self._caches.namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp or key.name in NOT_OURS:
            return
        meta = namespace.metadata
        reading = read_shares(meta.annotations)
        if reading.faults:
            note = f"What holds goes on holding: {'; '.join(map(str, reading.faults))}"
            self._recorder.record(NAMESPACES, namespace, UNREADABLE, note=note)
            return
        if missing := marks_for(reading, meta, meta, own=True).missing(meta):
            try:
                await patch_seen(self._client, NAMESPACES, namespace, {"metadata": missing})
            except NotFound:
                return
        ledger = self._caches.ledgers.get(Key(LEDGER_NAMESPACE, ledger_name(meta.name)))
        wanted = limits_of(reading.shares)
        if (wanted or ledger is not None) and (ledger is None or not has_limits(ledger.spec, wanted, about=ABOUT)):
            await set_limits(self._client, ledger_name(meta.name), wanted, about=ABOUT)


def _of_ledger(ledger: Ledger) -> Iterable[Key]:
    namespace = namespace_of(ledger.metadata.name)
    return (Key("", namespace),) if namespace else ()


def _other_limits(old: Ledger | None, new: Ledger | None) -> bool:
    """Bookings are none of our business."""
    return old is None or new is None or old.spec != new.spec
