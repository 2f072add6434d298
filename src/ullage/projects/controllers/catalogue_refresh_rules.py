"""Which places are asked now, what an answer or a failure makes of what is known, and which places go. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ullage.projects.api.catalogues import WANTED, MachineCatalogue
from ullage.projects.sizes.catalogue import Catalogue, Flavour, Known, Place
from ullage.times import read_time

# Which places of the catalogue are asked next: a plan for whoever fetches in the background. Places that machines are
# at are asked every few hours, so that sizes stay true. A flavour that nobody knows is asked for at once, and then not
# again for a while: a tenant who names a thousand flavours, or makes up regions, costs a few calls a minute, all with
# his own credential, and nobody else waits for them. A place that fails is asked less and less often. Pure. Times are
# arguments.


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


MOST_AT_ONCE: Final = 6
WANTED_FOR: Final = timedelta(hours=1)  # a place that has never answered is tried for so long after somebody has asked for it
KEPT_FOR: Final = timedelta(days=7)  # after the last word of a place that nobody uses any more
LOOK: Final = timedelta(hours=1)  # how often, for those
# No place is asked again sooner, whatever is read: an object may be seen as it was before the last answer was written.
PAUSE: Final = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class RefreshFacts:
    """What is known of all places that are filled by us, which of them may be asked (`allowed`), which are being asked
    (`running`) and which were asked just now (`recent`)."""

    catalogue: Catalogue
    objects: Mapping[Place, MachineCatalogue]
    allowed: Callable[[Place], bool]
    running: Collection[Place] = ()
    recent: Collection[Place] = ()


@dataclass(frozen=True, slots=True)
class RefreshSteps:
    """What to ask, what to take away, and when to look again. None: when something changes."""

    ask: tuple[Place, ...]
    remove: tuple[Place, ...]
    wait: timedelta | None


def next_refreshes(facts: RefreshFacts, *, now: datetime, schedule: Schedule = USUAL) -> RefreshSteps:
    in_use = {place for place, known in facts.catalogue.places.items() if known.refreshed and facts.allowed(place)}
    wanted = {place for place, one in facts.objects.items() if is_wanted(one, facts.catalogue.known(place), now=now)}
    busy = {*facts.running, *facts.recent}
    planned = plan(facts.catalogue, in_use=in_use - busy, wanted=wanted - busy, now=now, schedule=schedule)
    used = {*in_use, *wanted, *facts.running}
    kept = facts.catalogue.pruned(used, before=now - KEPT_FOR).places
    # What was made a moment ago has no news yet: it is not old.
    old = (place for place in facts.catalogue.places if place not in kept)
    idle = sorted(place for place in old if _made_before(facts.objects[place], now - KEPT_FOR))
    unused = facts.catalogue.places.keys() - used
    waits = (planned.wait, PAUSE if facts.recent else None, LOOK if unused else None)
    wait = min((one for one in waits if one is not None), default=None)
    return RefreshSteps(_in_turn(planned.places, facts.running, schedule), tuple(idle), wait)


def is_wanted(found: MachineCatalogue, known: Known, *, now: datetime) -> bool:
    """Whether somebody asked for a flavour since the place was heard of, or lately for one of a place that never answered."""
    asked = read_time(found.metadata.annotations.get(WANTED, "")) or read_time(found.metadata.creation_timestamp)
    if asked is None:
        return False
    news = known.news()
    if known.refreshed is None:
        return news is None or now - asked < WANTED_FOR
    return news is not None and asked > news


def answered(had: Known, place: Place, flavours: Mapping[str, Flavour], *, source: str, at: datetime) -> Known:
    return Catalogue({place: had}).refreshed(place, flavours, source=source, at=at).known(place)


def failed(had: Known, place: Place, reason: str, *, at: datetime) -> Known:
    """All sizes stay."""
    return Catalogue({place: had}).failed(place, reason, at=at).known(place)


def surplus(catalogue: Catalogue, place: Place, *, at: datetime) -> tuple[Place, ...]:
    """The places of the same credential that have never answered and are too many, once this one has failed, too."""
    return tuple(sorted(catalogue.places.keys() - catalogue.failed(place, "", at=at).places.keys()))


def _in_turn(places: Iterable[Place], running: Collection[Place], schedule: Schedule) -> tuple[Place, ...]:
    """A few at once, and of one credential fewer: nobody waits for somebody else's slow cloud for long."""
    taken = Counter((one.provider, one.credential) for one in running)
    chosen: list[Place] = []
    for place in places:
        account = (place.provider, place.credential)
        if taken[account] < schedule.each and len(running) + len(chosen) < MOST_AT_ONCE:
            taken[account] += 1
            chosen.append(place)
    return tuple(chosen)


def _made_before(found: MachineCatalogue, moment: datetime) -> bool:
    made = read_time(found.metadata.creation_timestamp)
    return made is None or made <= moment
