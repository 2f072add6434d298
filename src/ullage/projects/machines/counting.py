"""What a Machine counts: what it is stamped with, as long as its object is there. Pure.

Whether it is being deleted does not matter, nor what its status says: a server runs until it is gone. Where the stamp is wrong
the Machine has to be sized anew, which is booked whatever the limit is, since the server may run already; and somebody is told,
since it does not happen by itself. The seed remembers what it saw of each uid, out of reach of the user cluster: what is sized
anew never counts less than that. Otherwise a flavour in the spec that is exchanged for a smaller one, while the webhook is
away, would make a large server count as a small one. A Machine whose stamp somebody takes off or exchanges again each time
counts by what it was sized to meanwhile, which the seed remembers as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ullage.ledger.amounts import Amounts
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.signatures import Valid, Verdict

LOWERED: Final = "Lowered"
_NONE: Final = Amounts()


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the seed has seen a Machine count, the most of each resource that a valid stamp said or that it was sized to.
    `held`: it was seen without a stamp that can be believed, and counts so much whatever it has by now."""

    uid: str
    amounts: Amounts
    held: bool = False


@dataclass(frozen=True, slots=True)
class Counted:
    """It takes what its stamp says. `bind`: the stamp is to be signed again, over the uid and with the key of today."""

    amounts: Amounts
    bind: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """To be sized anew, stamped, and booked past the limit. `at_least` is what it has counted before. `alarm`: somebody is to
    be told, since stamps do not go wrong by themselves."""

    reason: str
    message: str
    at_least: Amounts = _NONE
    alarm: bool = True


def count(
    machine: MachineFacts, verdict: Verdict, *, remembered: Remembered | None = None, asked_since: datetime | None = None
) -> Counted | Resize:
    """Has an answer for every Machine. `asked_since` is when the webhook began to be asked in its cluster: what is older and
    has no stamp was there before us, and nobody did anything wrong."""
    known = remembered if remembered is not None and remembered.uid == machine.uid else None
    before = known.amounts if known is not None else _NONE
    if not isinstance(verdict, Valid):
        return Resize(
            reason=verdict.reason,
            message=verdict.message,
            at_least=before,
            alarm=not (verdict.reason == "Missing" and (known is None or known.held) and _is_older(machine, asked_since)),
        )
    if not before <= verdict.amounts:
        return Resize(reason=LOWERED, message="its stamp says less than it did: an earlier one was put back", at_least=before)
    return Counted(verdict.amounts, bind=not verdict.settled)


def taken(machine: MachineFacts, found: Counted | Resize, *, remembered: Remembered | None = None) -> Amounts | None:
    """What a Machine takes now. Where its stamp cannot be believed, that is what the record holds against it. None: it is not
    in the record as such a one yet, so nobody has sized it since."""
    if isinstance(found, Counted):
        return found.amounts
    known = remembered if remembered is not None and remembered.uid == machine.uid else None
    return known.amounts if known is not None and known.held else None


def remember(machine: MachineFacts, found: Counted | Resize) -> Remembered:
    """What is to be remembered of a Machine from now on, in place of what was."""
    return Remembered(machine.uid, found.amounts if isinstance(found, Counted) else found.at_least)


def sized_anew(found: Counted | Resize, size: Amounts | None) -> Amounts | None:
    """What a Machine is to be stamped with. Of each resource the larger of what it counted and what the catalogue says of its
    spec by now. None: neither is known, so it cannot be stamped, and somebody has to be told."""
    before = found.amounts if isinstance(found, Counted) else found.at_least
    if size is None:
        return before if before or isinstance(found, Counted) else None
    return before | size


def _is_older(machine: MachineFacts, asked_since: datetime | None) -> bool:
    return asked_since is not None and machine.created is not None and machine.created < asked_since
