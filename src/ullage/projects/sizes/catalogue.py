"""The flavours that are known: how large they are, who said so, and when.

A catalogue has a place for each provider, region and credential that machines are made with, and is filled in the background:
admission asks nobody but the catalogue. A refresh that fails takes nothing away: the last known sizes go on to count, and their
age is shown. A flavour that a provider has withdrawn stays, too, as machines of it may exist.

Pure. Times are arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from ullage.quantity import Quantity
from ullage.times import timestamp

MOST_FLAVOURS: Final = 5_000  # at one place; the largest provider has a fifth of it
MOST_UNANSWERED: Final = 20  # places of one credential that have never answered: tenants can make up regions


@dataclass(frozen=True, slots=True)
class Flavour:
    """A size that a provider has a name for. What it says nothing of, is None: where disks are bought apart, or for an image,
    which has a disk and nothing else."""

    cpu: Quantity | None = None
    memory: Quantity | None = None
    storage: Quantity | None = None


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Whose answer holds. `credential` names what it is asked with (never the secret itself); `endpoint` is the cloud's address
    where there are many clouds of one kind: OpenStack."""

    provider: str
    region: str = ""
    credential: str = ""
    endpoint: str = ""

    def wider(self) -> tuple[Place, ...]:
        """Itself, then what is said for all credentials, then what is said for the provider: people write such."""
        return tuple(dict.fromkeys((self, replace(self, credential=""), Place(self.provider))))

    def __str__(self) -> str:
        """`aws in eu-central-1`."""
        return " ".join(
            (self.provider, *(["at", self.endpoint] if self.endpoint else []), *(["in", self.region] if self.region else []))
        )


@dataclass(frozen=True, slots=True, order=True)
class FlavourKey:
    """A look-up: what to ask, and where."""

    place: Place
    name: str

    def __str__(self) -> str:
        return f"{self.name} of {self.place}"


@dataclass(frozen=True, slots=True)
class Failure:
    """A refresh that does not succeed any more: since when, when last, and why."""

    since: datetime
    last: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one place. `refreshed` is None while no refresh has succeeded."""

    flavours: Mapping[str, Flavour] = field(default_factory=dict)
    source: str = ""
    refreshed: datetime | None = None
    failure: Failure | None = None

    def news(self) -> datetime | None:
        """When it was heard of last, for better or worse."""
        return max((one for one in (self.refreshed, self.failure.last if self.failure else None) if one), default=None)

    def age(self, now: datetime) -> timedelta | None:
        """How old the sizes are; a clock that was set back makes nothing younger than now."""
        return max(now - self.refreshed, timedelta()) if self.refreshed else None

    def state(self, now: datetime) -> str:
        """One line for people: `820 flavours from DescribeInstanceTypes, 3h old; refreshing fails since …: timed out`."""
        age = self.age(now)
        said = (
            f"{len(self.flavours)} flavours from {self.source}, {_spell(age)} old"
            if age is not None
            else "nothing is known yet"
        )
        if self.failure:
            said += f"; refreshing fails since {timestamp(self.failure.since)}: {self.failure.reason}"
        return said


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All places. A value: what changes gives a new one."""

    places: Mapping[Place, Known] = field(default_factory=dict)

    def find(self, key: FlavourKey) -> Flavour | None:
        """The nearest place that has it answers."""
        name = flavour_name(key.place.provider, key.name)
        found = (known.flavours.get(name) for place in key.place.wider() if (known := self.places.get(place)) is not None)
        return next((flavour for flavour in found if flavour is not None), None)

    def known(self, place: Place) -> Known:
        return self.places.get(place, Known())

    def refreshed(self, place: Place, flavours: Mapping[str, Flavour], *, source: str, at: datetime) -> Catalogue:
        """After an answer. What it names replaces what was known; what it does not name stays, as long as there is room. An
        answer that is older than what is known changes nothing: refreshes may overtake each other."""
        had = self.known(place)
        if had.refreshed and at < had.refreshed:
            return self
        named = {flavour_name(place.provider, name): one for name, one in flavours.items()}
        withdrawn = {name: one for name, one in had.flavours.items() if name not in named}
        kept = dict([*named.items(), *withdrawn.items()][:MOST_FLAVOURS])
        return self._with(place, Known(kept, source=source, refreshed=at))

    def failed(self, place: Place, reason: str, *, at: datetime) -> Catalogue:
        """After a refresh that failed: all sizes stay. Of places that have never answered the oldest go, so that a tenant who
        makes up regions fills no memory."""
        had = self.known(place)
        since = had.failure.since if had.failure else at
        made = self._with(place, replace(had, failure=Failure(since=since, last=at, reason=reason)))
        return made._without(made._unanswered(place.credential)[:-MOST_UNANSWERED])

    def pruned(self, in_use: Collection[Place], *, before: datetime) -> Catalogue:
        """Without places that no machine is at, and of which nothing was heard since then."""
        idle = [place for place, known in self.places.items() if place not in in_use and (known.news() or before) <= before]
        return self._without(idle)

    def _with(self, place: Place, known: Known) -> Catalogue:
        return Catalogue({**self.places, place: known})

    def _without(self, gone: Collection[Place]) -> Catalogue:
        return Catalogue({place: known for place, known in self.places.items() if place not in gone}) if gone else self

    def _unanswered(self, credential: str) -> list[Place]:
        """Those that were asked longest ago first."""
        found = [(one.failure.last, place) for place, one in self.places.items() if one.failure and not one.refreshed]
        return [place for _, place in sorted(found) if place.credential == credential]


def flavour_name(provider: str, name: str) -> str:
    """How a name is kept: Azure takes `standard_b2s` for `Standard_B2s`, others tell them apart."""
    return name.casefold() if provider == "azure" else name


def _spell(age: timedelta) -> str:
    """`45s`, `12m`, `3h`, `8d`: the largest unit of which there are two, rounded down."""
    seconds = int(age.total_seconds())
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
