"""Which places of the catalogue are asked next: a plan for whoever fetches in the background.

Places that machines are at are asked every few hours, so that sizes stay true. A flavour that nobody knows is asked for at
once, and then not again for a while: a tenant who names a thousand flavours, or makes up regions, costs a few calls a minute,
all with his own credential, and nobody else waits for them. A place that fails is asked less and less often.

Pure. Times are arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ullage.projects.sizes.catalogue import Catalogue, Known, Place


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often is often enough."""

    every: timedelta = timedelta(hours=6)  # of a place in use
    again: timedelta = timedelta(minutes=1)  # of a place that did not have a flavour: it may have it now
    retry: timedelta = timedelta(seconds=30)  # after the first failure; then as long as it has failed already
    longest: timedelta = timedelta(hours=1)
    pace: timedelta = timedelta(seconds=10)  # between two plans, where one does not hold all that is due
    each: int = 2  # places of one credential in one plan


USUAL: Final = Schedule()


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """What to ask now, in order, and when to plan again. None: when something new is asked for."""

    places: tuple[Place, ...]
    wait: timedelta | None


def plan(
    catalogue: Catalogue, *, in_use: Collection[Place], wanted: Collection[Place], now: datetime, schedule: Schedule = USUAL
) -> RefreshPlan:
    """`in_use`: where machines are. `wanted`: where a look-up is asked for (`Unknown.lookup`)."""
    times = {place: due(catalogue.known(place), now, wanted=place in wanted, schedule=schedule) for place in {*in_use, *wanted}}
    # What has answered before goes first: places that were made up do not hold it up.
    late = sorted((not catalogue.known(place).refreshed, time, place) for place, time in times.items() if time <= now)
    taken: Counter[tuple[str, str]] = Counter()
    chosen: list[Place] = []
    for _, _, place in late:
        account = (place.provider, place.credential)
        if taken[account] < schedule.each:
            taken[account] += 1
            chosen.append(place)
    waits = [time - now for time in times.values() if time > now] + ([schedule.pace] if len(chosen) < len(late) else [])
    return RefreshPlan(tuple(chosen), min(waits, default=None))


def due(known: Known, now: datetime, *, wanted: bool, schedule: Schedule = USUAL) -> datetime:
    """When a place is to be asked again. A time that lies ahead, as after a clock was set back, counts as now."""
    if known.failure:
        failing = known.failure.last - known.failure.since
        return min(known.failure.last, now) + min(max(failing, schedule.retry), schedule.longest)
    if known.refreshed is None:
        return now
    return min(known.refreshed, now) + (schedule.again if wanted else schedule.every)
