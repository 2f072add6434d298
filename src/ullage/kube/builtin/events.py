"""events.k8s.io: Events."""

from __future__ import annotations

from typing import Final

from ullage.kube.builtin.core import ObjectReference
from ullage.kube.kinds import Kind, Object, Value


class EventSeries(Value):
    count: int = 0
    last_observed_time: str = ""


class Event(Object):
    """An Event, in whichever way it was written: those that came through the older API have the deprecated fields."""

    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_count: int = 0

    @property
    def last_seen(self) -> str:
        said = self.series.last_observed_time if self.series else ""
        return said or self.deprecated_last_timestamp or self.event_time or self.metadata.creation_timestamp

    @property
    def count(self) -> int:
        return max(1, self.series.count if self.series else 0, self.deprecated_count)


EVENTS: Final = Kind("events.k8s.io", "v1", "Event", "events", Event, whole=False, status=False)
