"""Which Machines that went a provider is asked about, when it is asked again, and what comes of its answer. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ullage.projects.api.machines import MACHINES
from ullage.projects.machines.vanished import Vanished, answered

REST: Final = "rest"  # in the place of a uid: many, of which nobody can be asked
SOONEST: Final = timedelta(seconds=30)  # between two questions about one cluster
LONGEST: Final = timedelta(minutes=10)  # between them where servers are left behind for long


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the record is to say of those that went. `left` are those whose servers are there, and were not known to be."""

    vanished: tuple[Vanished, ...]
    left: tuple[str, ...] = ()


def uid_of(cluster: str, one: Vanished) -> str:
    """Empty: it is not about one Machine of this cluster."""
    prefix = f"{MACHINES.name}/{cluster}/"
    uid = one.key.removeprefix(prefix) if one.key.startswith(prefix) else ""
    return "" if uid == REST or "/" in uid else uid


def asked_about(cluster: str, vanished: Iterable[Vanished]) -> tuple[str, ...]:
    """Their uids."""
    return tuple(uid for one in vanished if (uid := uid_of(cluster, one)))


def again_in(vanished: Sequence[Vanished], *, now: datetime) -> timedelta:
    """How long until it is worth another question: the longer servers are left behind, the longer."""
    youngest = max((one.since for one in vanished), default=now)
    return min(max(SOONEST, (now - youngest) / 4), LONGEST)


def outcome(
    cluster: str, vanished: Iterable[Vanished], uids: Collection[str], present: Collection[str], *, asked: datetime
) -> Outcome:
    """Those that nobody asked about, since they went later or there are too many, stay as they are."""
    kept: list[Vanished] = []
    left: list[str] = []
    for one in vanished:
        uid = uid_of(cluster, one)
        if uid not in uids:
            kept.append(one)
            continue
        found = answered(one, "there" if uid in present else "gone", asked=asked)
        if found is not None:
            kept.append(found)
            if found.there is not None and one.there is None:
                left.append(uid)
    return Outcome(tuple(kept), tuple(left))


def left_note(cluster: str, uids: Sequence[str], provider: str) -> str:
    """What administrators of the seed are told."""
    named = ", ".join(uids[:5]) + (f" and {len(uids) - 5} more" if len(uids) > 5 else "")
    return (
        f"Machines of cluster {cluster} are gone, and their servers are still there, as {provider} says. They count until the"
        f" servers are gone. Their uids, which the servers are marked with: {named}. Next: delete these servers, and find out"
        " who took the finalizers off"
    )
