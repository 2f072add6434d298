"""The word that some snapshots wait for before they are cut, and the estimate that it is about. Pure.

A snapshot that is cut together with others waits until all of them are ready. So does one that pays, where the process that
calls its driver is not one that may book (a sidecar has the identity of other people's pods). Both get everything ready,
measure, and write on their record what they would take; users cannot write there. Whoever books it then says on the snapshot
`go@` (to a group) or `booked@` and the time of that estimate, or `no@`: a word about another estimate opens nothing.

A snapshot whose hooks are run before it is cut (HOOKED) is alone, pays for itself, and waits like one of a group. One that
says it is a member of a VolumeGroupSnapshot waits, too, whatever it lacks: its driver may be asked for all of the group.

What holds a group owns its snapshots: if it goes, the garbage collector deletes them. One that was left behind on purpose (an
orphaning deletion) is cut like any other as soon as it pays for itself, and not before.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from ullage.errors import Impossible
from ullage.kube.kinds import Meta
from ullage.kube.objects import controller_of
from ullage.ledger.amounts import BadAmount
from ullage.ledger.charging.booking import payer
from ullage.ledger.charging.methods import CAPACITY
from ullage.ledger.charging.raising import NoRoom
from ullage.ledger.charging.stamps import ESTIMATED_BY, BadStamp
from ullage.ledger.charging.waiting import waits
from ullage.snapshots.model import BOOKED, CUT, ESTIMATE, GO, HOLD, HOOKED, NO, group_of
from ullage.times import micro_timestamp, read_time

FRESH: Final = timedelta(seconds=10)  # how old an estimate may be when the snapshot is cut
AGAIN: Final = timedelta(seconds=5)  # a snapshot that waits is measured this often
PATIENCE: Final = timedelta(minutes=10)  # for so long; then at every full minute, as all others of its group are


@dataclass(frozen=True, slots=True)
class Estimate:
    """So many bytes would the snapshot take at most."""

    bytes: int
    at: str  # when it was measured, to the microsecond: the name of this estimate
    group: bool = False  # it is waited for by others
    by: str = ""  # how it was found

    def age(self, now: datetime) -> timedelta | None:
        """None: its time is none, or has not come yet. Another machine's clock may have written it."""
        at = read_time(self.at)
        return now - at if at is not None and at <= now else None

    def is_fresh(self, now: datetime) -> bool:
        age = self.age(now)
        return age is not None and age < FRESH


class CutRefused(Impossible):
    """Whoever holds it says that it is not to be cut, for a reason of his own. It is tried again after a long time."""


# Why a snapshot is not cut whose hooks are run: they have failed, have taken too long, or make no sense.
HOOK_REASONS: Final = frozenset({"HookFailed", "HookTimedOut", "HookInvalid"})


def refused(text: str) -> CutRefused | NoRoom:
    """The error that a refusal stands for: its reason in front, or numbers that do not fit."""
    reason, colon, message = text.partition(": ")
    return CutRefused(message, reason=reason) if colon and reason in HOOK_REASONS else NoRoom(text)


class _WrittenEstimate(msgspec.Struct, frozen=True, omit_defaults=True):
    bytes: int
    at: str
    group: bool = False
    by: str = ""


def estimate_of(record: Meta) -> Estimate | None:
    """What was last measured for a record; None: nothing readable."""
    text = record.annotations.get(ESTIMATE)
    if text is None:
        return None
    try:
        found = msgspec.json.decode(text, type=_WrittenEstimate)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return Estimate(found.bytes, found.at, found.group, found.by) if found.bytes >= 0 else None


def written(amount: int, now: datetime, *, group: bool, by: str) -> str:
    """The annotation's value: `{"bytes":4096,"at":"2026-01-01T00:00:05.000000Z","group":true,"by":"measured"}`."""
    return msgspec.json.encode(_WrittenEstimate(amount, micro_timestamp(now), group, by)).decode()


def waits_for_group(record: Meta) -> bool:
    found = estimate_of(record)
    return found is not None and found.group


@dataclass(frozen=True, slots=True)
class Gate:
    """What keeps a snapshot from being cut until the word comes."""

    group: bool  # it is cut together with others; otherwise it only waits until it is booked
    word: str = ""
    estimate: Estimate | None = None

    @property
    def open(self) -> bool:
        yes = GO if self.group else BOOKED
        return self.estimate is not None and self.word == f"{yes}{self.estimate.at}"

    @property
    def refusal(self) -> str:
        """Why it is not to be cut, with the numbers; empty: nobody has said so."""
        about, _, numbers = self.word.partition(" ")
        refused = self.estimate is not None and about == f"{NO}{self.estimate.at}"
        return numbers if refused else ""

    def measure_after(self, now: datetime, since: datetime | None) -> float:
        """Seconds until it is measured again, while it waits `since` then; 0: now.

        Whoever holds a group lets it go when all its estimates are fresh. A group that waits for long is measured seldom, all
        of it at the same moments.
        """
        age = self.estimate.age(now) if self.estimate is not None else None
        if self.estimate is None or age is None:
            return 0.0
        at = now - age
        patient = since is not None and now - since > PATIENCE
        due = at.replace(second=0, microsecond=0) + timedelta(minutes=1) if patient else at + AGAIN
        return max(0.0, (due - now).total_seconds())


def gate_of(snapshot: Meta, record: Meta, *, books: bool) -> Gate | None:
    """The gate that a snapshot waits at; None: it has none. `books`: this process may book what the snapshot takes."""
    word, pays = snapshot.annotations.get(CUT, ""), pays_for_itself(snapshot)
    together = HOOKED in snapshot.annotations or bool(group_of(snapshot))  # whatever was said to it before
    held = together or (word.startswith((HOLD, GO)) and (not pays or controller_of(snapshot) is not None))
    if not held and (books or not pays):
        return None
    return Gate(group=held, word=word, estimate=estimate_of(record))


def pays_for_itself(snapshot: Meta) -> bool:
    """One whose stamp cannot be read does: whoever is to book it finds that out, and says so."""
    try:
        return payer(snapshot) is not None
    except (BadStamp, BadAmount):
        return True


def is_paid_whole(snapshot: Meta) -> bool:
    """Whether a snapshot has the capacity of its volume booked, which is the most that it can take."""
    if snapshot.annotations.get(ESTIMATED_BY) != CAPACITY or waits(snapshot):
        return False
    try:
        stamp = payer(snapshot)
    except (BadStamp, BadAmount):
        return False
    return stamp is not None and bool(stamp.takes)
