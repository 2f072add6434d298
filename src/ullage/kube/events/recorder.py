"""Events on objects: what `kubectl describe` and `kubectl events` tell people about what the controllers did and why.

An Event is a courtesy. `Recorder.record` only takes a note of it and returns; one task writes. No failure of the API reaches a
reconciler, and a reason that is no proper one fails where it is declared, at import, not where it is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from ullage.clock import Clock, SystemClock
from ullage.errors import Retryable
from ullage.kube.builtin.core import ObjectReference
from ullage.kube.builtin.events import EVENTS, Event, EventSeries
from ullage.kube.errors import AlreadyExists, NotFound
from ullage.kube.events.reason import NAME_LIMIT, Reason
from ullage.kube.events.series import Limits, Series, SeriesBook
from ullage.kube.kinds import Kind, Meta, Object
from ullage.times import micro_timestamp

if TYPE_CHECKING:
    from ullage.kube.client.client import Client

logger = logging.getLogger(__name__)

NOTE_BYTES: Final = 1024
FLUSH_SECONDS: Final = 1.0  # at the end of a process, which has a few seconds for everything
_RETRY: Final = (1.0, 60.0)


class EventRecorder(Protocol):
    """What controllers need of a `Recorder`."""

    def record(self, kind: Kind[Any], obj: Object, reason: Reason, *, note: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _EventKey:
    """What makes two events the same one."""

    regarding: ObjectReference
    reason: Reason
    note: str
    related: ObjectReference | None

    def name(self, controller: str) -> str:
        """The same in every process and after every restart, so that a series outlives whoever reports it."""
        related = self.related or ObjectReference()
        told = (controller, self.reason.name, self.reason.action, self.reason.type, self.note)
        whom = (self.regarding.kind, self.regarding.name, self.regarding.uid, related.kind, related.name, related.uid)
        digest = hashlib.sha256("\0".join((*told, *whom)).encode()).hexdigest()[:16]
        return f"{re.sub(r'[^a-z0-9]+', '-', self.regarding.name.lower())[:230].strip('-') or 'x'}.{digest}"


class Recorder:
    """Takes events and writes them in its own time. `observe` is told `written`, `dropped` and `failed`, for counting."""

    def __init__(
        self,
        client: Client,
        controller: str,
        *,
        instance: str,
        clock: Clock | None = None,
        limits: Limits | None = None,
        observe: Callable[[str], None] | None = None,
    ) -> None:
        self._client = client
        self._controller = controller  # a qualified name: `ullage.io/snapshots`
        self._instance = instance[:NAME_LIMIT]
        self._clock = clock or SystemClock()
        self._observe = observe or (lambda outcome: None)
        self._book: SeriesBook[_EventKey] = SeriesBook(limits)
        self._news = asyncio.Event()
        self._retry = _RETRY[0]
        self._writer: asyncio.Task[None] | None = None
        self._stopped = False

    def record(
        self,
        kind: Kind[Any],
        obj: Object,
        reason: Reason,
        *,
        note: str,
        related: ObjectReference | None = None,
    ) -> None:
        """Notes that something happened to an object. Costs microseconds and never raises or waits."""
        regarding = ObjectReference.of(kind, obj.metadata)
        saying = _EventKey(regarding, reason, shorten(note), related)
        heard = not self._stopped and self._book.say(
            saying, about=regarding, now=self._clock.monotonic(), moment=self._clock.now()
        )
        if heard:
            self._news.set()
        else:
            self._observe("dropped")

    async def __aenter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """For whoever cannot wait, or has a recorder for each of many places; it ends with `stop`."""
        self._writer = asyncio.create_task(self._write_all(), name="events")

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self, seconds: float = FLUSH_SECONDS) -> None:
        """Writes what is left, for so many seconds, and takes no more."""
        self._stopped = True
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait((self._writer,))
            self._writer = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for series in self._book.pending():
                    if not await self._write(series):
                        break
        for _ in self._book.pending():
            self._observe("dropped")

    async def _write_all(self) -> None:
        while True:
            self._news.clear()
            for series in self._book.due(self._clock.monotonic()):
                if not await self._write(series):
                    await asyncio.sleep(self._retry)
                    self._retry = min(self._retry * 2, _RETRY[1])
                    break
            else:
                await self._pause()

    async def _pause(self) -> None:
        """Until there is news, or a count that was held back is due."""
        due = self._book.next_due()
        wait = None if due is None else max(0.0, due - self._clock.monotonic())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._news.wait()

    async def _write(self, series: Series[_EventKey]) -> bool:
        """One write. False: the API cannot be written to just now; whatever else goes wrong costs this event only."""
        said = series.said
        try:
            await self._send(series)
        except Retryable as error:
            self._retry = max(self._retry, getattr(error, "retry_after", None) or 0.0)
            series.due = self._clock.monotonic() + self._retry  # if it is only this one, the others go first next time
            logger.debug("an event must wait", extra={"error": str(error)})
            return False
        except Exception as error:
            self._book.drop(series)
            self._observe("failed")
            logger.info("an event was not written", extra={"reason": series.key.reason.name, "error": str(error)})
            return True
        self._retry = _RETRY[0]
        self._book.wrote(series, said=said, now=self._clock.monotonic())
        self._observe("written")
        return True

    async def _send(self, series: Series[_EventKey]) -> None:
        if series.written:
            try:
                return await self._count(series)
            except NotFound:  # the API has forgotten it, as it does after an hour
                series.before = -series.written
                series.first = series.last
        try:
            await self._client.create(EVENTS, self._event(series))
        except AlreadyExists:  # an earlier process of ours, or another replica, said the same
            found = await self._client.get(EVENTS, series.key.name(self._controller), _namespace(series.key))
            series.before = self._said_before(series, found) - series.written
            if series.count > 1:
                await self._count(series)

    def _said_before(self, series: Series[_EventKey], found: Event) -> int:
        """How often it was said by others; what is there may also be our own Event, if the answer to it was lost."""
        own = found.reporting_instance == self._instance and found.event_time == micro_timestamp(series.first)
        return 0 if own and not found.series else found.series.count if found.series else 1

    async def _count(self, series: Series[_EventKey]) -> None:
        told = {"count": series.count, "lastObservedTime": micro_timestamp(series.last)}
        await self._client.patch(EVENTS, series.key.name(self._controller), _namespace(series.key), merge={"series": told})

    def _event(self, series: Series[_EventKey]) -> Event:
        saying, count = series.key, series.count
        return Event(
            metadata=Meta(name=saying.name(self._controller), namespace=_namespace(saying)),
            event_time=micro_timestamp(series.first),
            series=EventSeries(count=count, last_observed_time=micro_timestamp(series.last)) if count > 1 else None,
            reporting_controller=self._controller,
            reporting_instance=self._instance,
            action=saying.reason.action or saying.reason.name,
            reason=saying.reason.name,
            regarding=saying.regarding,
            related=saying.related,
            note=saying.note,
            type=saying.reason.type,
        )


def _namespace(saying: _EventKey) -> str:
    return saying.regarding.namespace or "default"  # where Events on cluster-scoped objects live


def shorten(note: str) -> str:
    """A note that the API takes: valid Unicode, at most 1,024 bytes, cut between characters."""
    encoded = note.encode("utf-8", "replace")
    if len(encoded) <= NOTE_BYTES:
        return encoded.decode()
    return f"{encoded[: NOTE_BYTES - 3].decode('utf-8', 'ignore')}…"
