"""MachineDeployments are told early what will become of their Machines: `kubectl scale` and autoscalers learn at once, instead
of from Machines that are refused one by one. Pure.

Nothing is booked here: the Machines are. So this is a warning; it refuses where whoever owns the deployment has asked for that
with the annotation `ullage.io/enforce-early: "true"`. What does not grow is never refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ullage.ledger.amounts import Amounts
from ullage.ledger.book import Over
from ullage.projects.machines.facts import Room, times
from ullage.projects.machines.texts import (
    ENFORCE_EARLY,
    early_refusal_text,
    early_warning_text,
    in_order,
    is_certain,
    room_step,
)
from ullage.projects.machines.wholes import NO_PARTS, Wholes
from ullage.projects.names import ACCOUNT

TRUE: Final = "true"
DEFAULT_REPLICAS: Final = 1  # of a MachineDeployment that says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a MachineDeployment asks for: so many machines of a size. None for the size: nobody knows it."""

    replicas: int | None
    size: Amounts | None

    @property
    def number(self) -> int:
        return DEFAULT_REPLICAS if self.replicas is None else max(0, self.replicas)

    @property
    def amounts(self) -> Amounts:
        return times(self.size or Amounts(), self.number)


@dataclass(frozen=True, slots=True)
class Early:
    """What is said to whoever creates or scales a deployment, and whether it is refused."""

    refused: bool
    message: str


def review_wish(
    name: str,
    before: Wish | None,
    after: Wish,
    *,
    room: Mapping[str, Room],
    project: str,
    annotations: Mapping[str, str],
    wholes: Wholes = NO_PARTS,
) -> Early | None:
    """The answer to a create (`before` is None), or an update of replicas or template. None: nothing to say.

    It is refused where the project has no room. Where only this seed's part of the quota has none, nobody is: a deployment
    books nothing and so asks for no more, and would be refused for ever.

    Where the size is not known nothing is said: that is looked up, and its Machines are told. So it is where it was not known
    before: what a deployment takes by now is not to be asked for again.
    """
    if after.size is None or (before is not None and before.size is None):
        return None
    over = exceeded(after.amounts.beyond(before.amounts if before is not None else Amounts()), room)
    if not over:
        return None
    if annotations.get(ENFORCE_EARLY) == TRUE and is_certain(over, wholes):
        return Early(True, early_refusal_text(name, after.number, over, next_step=room_step(project), wholes=wholes))
    return Early(False, early_warning_text(name, after.number, over, wholes=wholes))


def exceeded(asked: Amounts, room: Mapping[str, Room]) -> tuple[Over, ...]:
    """Every limit that would be passed by that much more."""
    found = [
        Over(account=ACCOUNT, resource=name, asked=asked[name], used=one.used, reserved=one.reserved, limit=one.limit)
        for name, one in room.items()
        if one.limit is not None and asked[name].nanos and one.used + one.reserved + asked[name] > one.limit
    ]
    return tuple(in_order(found))
