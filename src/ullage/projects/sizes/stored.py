"""Between MachineCatalogue objects and what is known of places. Pure.

Several objects may be about one place: the one that the leader fills, whose name follows from the place, and those that people
have written. What people say goes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from ullage.errors import BadInput
from ullage.kube.kinds import Meta
from ullage.kube.objects import name_for
from ullage.projects.api.catalogues import (
    MANUAL,
    WANTED,
    CatalogueData,
    CatalogueShown,
    CatalogueSpec,
    MachineCatalogue,
)
from ullage.projects.sizes import codec
from ullage.projects.sizes.catalogue import Flavour, Known, Place, flavour_name

_NAME: Final = 100  # characters: what people can still read
MOST_REASON: Final = 300  # characters of a failure: somebody else's program may be talkative


class FlavourLines(Mapping[str, Flavour]):
    """Flavours that stay lines until somebody asks for one: of a thousand flavours at a thousand places few are ever used.
    What cannot be read is not there."""

    def __init__(self, lines: Mapping[str, str]) -> None:
        self._lines = lines

    def __getitem__(self, name: str) -> Flavour:
        try:
            return codec.read_flavour(self._lines[name], name)
        except BadInput as error:
            raise KeyError(name) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def catalogue_name(place: Place) -> str:
    """`aws-eu-central-1-…`: the same for the same place, whoever makes it."""
    return name_for(place.provider, place.region, place.credential, place.endpoint, limit=_NAME)


def place_of(found: MachineCatalogue) -> Place:
    spec = found.spec
    return Place(spec.provider, region=spec.region, credential=spec.credential, endpoint=spec.endpoint)


def is_manual(found: MachineCatalogue) -> bool:
    return found.data.source == MANUAL


def empty_catalogue(place: Place, *, wanted: str) -> MachineCatalogue:
    """One that is to be filled; `wanted` is the time of now."""
    spec = CatalogueSpec(provider=place.provider, region=place.region, credential=place.credential, endpoint=place.endpoint)
    return MachineCatalogue(metadata=Meta(name=catalogue_name(place), annotations={WANTED: wanted}), spec=spec)


def known_of(found: MachineCatalogue) -> Known:
    """All of it, read. Raises BadInput, which names the field."""
    return codec.read(msgspec.to_builtins(found.data), path="data")


def merged(objects: Iterable[MachineCatalogue]) -> Known:
    """What the objects about one place say together. Flavours are read when they are asked for."""
    ordered = sorted(objects, key=lambda one: (is_manual(one), one.metadata.name))
    lines: Mapping[str, str] = ordered[0].data.flavours if ordered else {}
    if len(ordered) > 1 or any(map(is_manual, ordered)):
        lines = {name: line for one in ordered for name, line in _named(one).items()}
    told = next((one for one in ordered if one.data.refreshed or one.data.failure), None)
    times = _times(told) if told is not None else Known()
    return Known(FlavourLines(lines), source=times.source, refreshed=times.refreshed, failure=times.failure)


def written(known: Known) -> tuple[CatalogueData, CatalogueShown]:
    """The parts of an object that say it."""
    document: dict[str, Any] = codec.write(known)
    failure = document.get("failure")
    if failure is not None:
        failure["reason"] = _cut(failure["reason"])
    return msgspec.convert(document, CatalogueData), CatalogueShown(flavours=len(known.flavours))


def shown_of(found: MachineCatalogue) -> CatalogueShown:
    """What is shown of what people have written."""
    try:
        return CatalogueShown(flavours=len(known_of(found).flavours))
    except BadInput as error:
        return CatalogueShown(flavours=len(found.data.flavours), problem=_cut(str(error)))


def _named(found: MachineCatalogue) -> Mapping[str, str]:
    return {flavour_name(found.spec.provider, name): line for name, line in found.data.flavours.items()}


def _times(found: MachineCatalogue) -> Known:
    """All but the flavours; nothing where it cannot be read: the sizes count all the same."""
    try:
        return known_of(msgspec.structs.replace(found, data=msgspec.structs.replace(found.data, flavours={})))
    except BadInput:
        return Known()


def _cut(text: str) -> str:
    return text if len(text) <= MOST_REASON else f"{text[: MOST_REASON - 1]}…"
