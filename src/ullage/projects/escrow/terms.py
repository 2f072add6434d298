"""The master's record of a project: what each seed may have been told, and what it is told now. Pure.

`granted` is never less than any limit that the seed may still have or get: it rises with the record of a raise, before the
seed hears of it, and falls only when the seed is known to keep to the lower limit. So the sum of `granted` is a bound on what
all seeds can admit together, whoever stops between two steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, TypeGuard

from ullage.errors import BadInput
from ullage.kube.objects import Json
from ullage.ledger.amounts import Cell, Limits, parse_amount
from ullage.projects.names import ACCOUNT
from ullage.quantity import Quantity
from ullage.times import micro_timestamp, read_time

_OBJECT: Final = "an object is allowed here"
_NUMBER: Final = "a whole number of 0 or more is allowed"


@dataclass(frozen=True, slots=True)
class Part:
    """Of one resource, for one seed. `granted` is None where the seed may still be without a limit."""

    granted: Quantity | None
    target: Quantity  # the limit that the seed is told

    def __post_init__(self) -> None:
        if self.granted is not None and self.granted < self.target:
            raise BadInput("granted", self.granted, f"no less than the target of {self.target} is allowed")

    @property
    def settled(self) -> bool:
        """Nothing of it is on its way back."""
        return self.granted == self.target


@dataclass(frozen=True, slots=True)
class Share:
    """What one seed has. A resource that is absent has no limit, and the seed is told so."""

    change: int  # the number of the change that its targets are
    reached: int = 0  # the last change that was seen to be reached and freed something: the seed never goes back behind it
    parts: Mapping[str, Part] = field(default_factory=dict)  # by resource
    turn: datetime | None = None  # when it last had its turn: it asked, and got more or had to give way
    drained: bool = False  # it was said to be gone for good, and has given back what it did not take; until it is seen again
    taken: Mapping[str, Quantity] = field(default_factory=dict)  # when it was last seen, by resource, where that is kept here

    @property
    def limits(self) -> Limits:
        """What the seed's ledger is to have."""
        return {Cell(ACCOUNT, resource): part.target for resource, part in self.parts.items()}


@dataclass(frozen=True, slots=True)
class Escrow:
    """The record of one project. It is kept when a quota goes: the numbers must go on."""

    shares: Mapping[str, Share] = field(default_factory=dict)  # by seed

    def having(self, seed: str, share: Share) -> Escrow:
        return replace(self, shares={**self.shares, seed: share})

    def granted(self, resource: str) -> Quantity | None:
        """What all seeds together may have; None: there may be one without a limit."""
        sum = Quantity.of(0)
        for share in self.shares.values():
            part = share.parts.get(resource)
            if part is None or part.granted is None:
                return None
            sum += part.granted
        return sum

    # --- as it is stored ---

    def written(self) -> Json:
        """Plain and in order, so that the same record always reads the same."""
        return {seed: _written(self.shares[seed]) for seed in sorted(self.shares)}

    @classmethod
    def parse(cls, stored: object, *, field: str = "escrow") -> Escrow:
        """Raises `BadInput` for the first value that cannot be. Nothing is guessed: a record that was damaged is not taken for
        an empty one, which would give everything away a second time."""
        if not _is_object(stored):
            raise BadInput(field, stored, _OBJECT)
        return cls({seed: _parsed(one, f"{field}.{seed}") for seed, one in stored.items()})


def _written(share: Share) -> Json:
    parts = sorted(share.parts.items())
    made: Json = {"change": share.change}
    if share.reached:
        made["reached"] = share.reached
    if parts:
        made["target"] = {name: str(part.target) for name, part in parts}
    if granted := {name: str(part.granted) for name, part in parts if part.granted is not None}:
        made["granted"] = granted
    if share.turn is not None:
        made["turn"] = micro_timestamp(share.turn)
    if share.drained:
        made["drained"] = True
    if share.taken:
        made["taken"] = {name: str(amount) for name, amount in sorted(share.taken.items())}
    return made


def _parsed(stored: object, place: str) -> Share:
    if not _is_object(stored):
        raise BadInput(place, stored, _OBJECT)
    targets, granted = (_texts(stored, name, place) for name in ("target", "granted"))
    if strange := sorted(granted.keys() - targets.keys()):
        raise BadInput(f"{place}.granted", strange[0], f"only what has a target is allowed: {', '.join(targets) or 'nothing'}")
    parts = {}
    for resource, text in targets.items():
        target = parse_amount(text, field=f"{place}.target.{resource}")
        given = parse_amount(granted[resource], field=f"{place}.granted.{resource}") if resource in granted else None
        if given is not None and given < target:
            raise BadInput(f"{place}.granted.{resource}", given, f"no less than the target of {target} is allowed")
        parts[resource] = Part(given, target)
    turn = _moment(stored["turn"], f"{place}.turn") if "turn" in stored else None
    drained = stored.get("drained", False)
    if not isinstance(drained, bool):
        raise BadInput(f"{place}.drained", drained, "true or false is allowed")
    taken = {
        resource: parse_amount(text, field=f"{place}.taken.{resource}")
        for resource, text in _texts(stored, "taken", place).items()
    }
    return Share(_count(stored, "change", place), _count(stored, "reached", place), parts, turn, drained, taken)


def _is_object(stored: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(stored, dict) and all(isinstance(name, str) for name in stored)


def _texts(stored: Json, name: str, place: str) -> dict[str, str]:
    found = stored.get(name, {})
    if not _is_object(found) or not all(isinstance(text, str) for text in found.values()):
        raise BadInput(f"{place}.{name}", found, "an object of texts is allowed here")
    return found


def _count(stored: Json, name: str, place: str) -> int:
    found = stored.get(name, 0)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise BadInput(f"{place}.{name}", found, _NUMBER)
    return found


def _moment(text: object, place: str) -> datetime:
    moment = read_time(text) if isinstance(text, str) else None
    if moment is None:
        raise BadInput(place, text, "a time like 2026-11-16T21:00:00Z is allowed")
    return moment
