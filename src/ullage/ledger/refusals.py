"""What a person is told when something does not fit: every limit that is in the way, all numbers with units, the next step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from ullage.ledger.accounts import Account
from ullage.ledger.amounts import spell
from ullage.ledger.book import Crowd, Over, Refusal
from ullage.quantity import Quantity
from ullage.times import timestamp

NO_FIT: Final = "does not fit: "
MORE: Final = {
    "": "",
    "asked": ". More was asked for, and has not been granted in time: try again in a moment",
    "possible": ". More may be granted: it is asked for when this is tried without dry run",
}


def refusal_text(refusal: Refusal, *, next_step: str = "", more: Literal["", "asked", "possible"] = "") -> str:
    """One line, since it is shown behind an error of kubectl and in Events. `next_step` is a command, or says what to do.
    `more` is about limits that are grants."""
    said = "; ".join(over_text(one) for one in refusal.over) + held_text(refusal) + MORE[more]
    next_step = waiting_step(refusal) or next_step
    return f"{NO_FIT}{said}. Next: {next_step}" if next_step else f"{NO_FIT}{said}"


def held_text(refusal: Refusal) -> str:
    """`. Held for requests that were not seen yet, until 2026-01-01T00:00:45Z at the latest: snapshots/namespace storage 30Gi`;
    empty where nothing is held."""
    held = [one for one in refusal.over if one.until is not None and one.reserved.nanos]
    if not held:
        return ""
    amounts = ", ".join(f"{one.account} {one.resource} {spell(one.resource, one.reserved)}" for one in held)
    return f". Held for requests that were not seen yet, until {_end(held)} at the latest: {amounts}"


def waiting_step(refusal: Refusal) -> str:
    """What to do where nothing but what is held for other requests is in the way; empty where more is."""
    if any(one.until is None or one.over > one.reserved for one in refusal.over):
        return ""
    return f"try again after {_end(refusal.over)}: it fits if nothing has come of those requests"


def _end(over: Iterable[Over]) -> str:
    return timestamp(max(one.until for one in over if one.until is not None))


def existing_text(key: str) -> str:
    """In kube-apiserver's words: `snapshots.longhorn.io "nightly" already exists`."""
    kind, _, _, name = key.split("/", 3)
    return f'{kind} "{name}" already exists'


def over_text(over: Over) -> str:
    """`snapshots/vm/db storage: asked 30Gi, used 60Gi, reserved 0, limit 80Gi, over by 10Gi`."""
    name = over.resource
    numbers = (
        *((f"asked {spell(name, over.asked)}",) if over.asked.nanos else ()),
        f"used {spell(name, over.used)}",
        f"reserved {spell(name, over.reserved)}",
        f"limit {spell(name, over.limit, down=True)}",
        f"over by {spell(name, over.over)}",
    )
    return f"{over.account} {name}: {', '.join(numbers)}"


def account_text(account: Account, *, takes: Quantity) -> str:
    """`snapshots/vm/db storage: takes 30Gi, used 40Gi, reserved 0, limit 80Gi, free 40Gi`."""
    name = account.resource
    numbers = [
        f"takes {spell(name, takes)}",
        f"used {spell(name, account.used)}",
        f"reserved {spell(name, account.reserved)}",
    ]
    if account.limit is None or account.free is None:
        numbers.append("no limit")
    else:
        numbers += [f"limit {spell(name, account.limit, down=True)}", f"free {spell(name, account.free, down=True)}"]
    return f"{account.name} {name}: {', '.join(numbers)}"


def crowd_text(crowd: Crowd) -> str:
    """`2000 requests have room reserved and are not counted yet, the earliest since 2026-01-01T00:00:00Z; …`."""
    since = timestamp(crowd.since)
    return (
        f"{crowd.held} requests have room reserved and are not counted yet, the earliest since {since}; that is as many as a"
        " ledger holds. Try again: room is made as they are counted, or expire"
    )
