"""A sample kind that uses everything a generated CRD can say. The end-to-end suite applies it and asks kubectl about it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from ullage.kube.kinds import AGE, AS_SET, QUANTITY, Column, Kind, Object, Rule, Value, listed_by
from ullage.kube.objects import Conditions

GROUP = "generated.example.com"


class Liquid(StrEnum):
    WATER = "Water"
    WINE = "Wine"


class Valve(Value):
    """A way in or out."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=20, pattern="^[a-z]+$")]
    """What the valve is called; unique in the vessel."""
    open: bool = False
    """Whether it lets anything through."""
    diameter: Annotated[int, msgspec.Meta(gt=0, le=500, extra_json_schema={"format": "int32"})] = 50
    """Width in millimetres. Default: 50."""


class Source(Value):
    """Where the content came from: exactly one of the fields is set."""

    well: str | None = None
    """The name of a well."""
    vineyard: str | None = None
    """The name of a vineyard."""


class Cooling(Value):
    """How the vessel is kept cool."""

    mode: Literal["Off", "Weak", "Strong"] = "Weak"
    """How hard it is cooled."""
    tolerance: Annotated[float, msgspec.Meta(ge=0, lt=5)] = 0.5
    """By how many degrees it may be wrong."""


class VesselSpec(Value):
    """What the vessel should be."""

    capacity: Annotated[int | str, QUANTITY]
    """How much fits in, in litres, as a quantity (`500`, `2k`)."""
    liquid: Liquid = Liquid.WATER
    """What is in it. Default: Water."""
    source: Source | None = None
    valves: Annotated[tuple[Valve, ...], msgspec.Meta(max_length=8), listed_by("name")] = ()
    """The ways in and out.

    Order does not matter:
    - inlets come from above,
    - outlets
      from below.
    """
    cooling: Cooling = Cooling()
    """How it is kept cool."""
    owners: Annotated[tuple[str, ...], AS_SET] = ()
    """Who may drink."""
    tags: Mapping[str, Annotated[str, msgspec.Meta(max_length=10)]] = {}
    """Free labels."""
    settings: Mapping[str, Any] = {}
    """Whatever the maker of the vessel understands."""
    grade: Literal["A", "B"] | None = None
    """How good it is, if anybody has said so."""


class VesselStatus(Value):
    """What the vessel is."""

    level: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How much is in it now, in litres."""
    conditions: Conditions = ()
    """What is known about it."""


class Vessel(Object):
    """Vessel holds a liquid, and says how much of it."""

    spec: VesselSpec
    status: VesselStatus = VesselStatus()


VESSELS = Kind(
    group=GROUP,
    version="v1",
    kind="Vessel",
    plural="vessels",
    type=Vessel,
    short_names=("ves",),
    categories=("cellar",),
    columns=(
        Column("Capacity", ".spec.capacity"),
        Column("Liquid", ".spec.liquid", description="What is in it."),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Level", ".status.level", type="integer", priority=1),
        AGE,
    ),
    rules=(
        Rule("self.metadata.name.size() <= 40", "the name is painted on: 40 letters at most"),
        Rule("self.liquid == oldSelf.liquid", "liquid cannot be changed", path="spec", field_path=".liquid"),
        Rule(
            "has(self.well) != has(self.vineyard)",
            "exactly one of well and vineyard must be given",
            path="spec.source",
            reason="FieldValueForbidden",
        ),
        Rule("!has(self.open) || !self.open || self.diameter < 400", "a wide valve stays shut", path="spec.valves[]"),
    ),
)
