"""The answer to `ullage why`, as text and for programs. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ullage.cli.common.accounts import SnapshotCount
from ullage.cli.common.events import event_table
from ullage.cli.common.text import NONE, aligned, plain
from ullage.errors import UllageError
from ullage.kube.builtin.events import Event
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json
from ullage.ledger.charging import methods
from ullage.ledger.charging.stamps import ESTIMATED_BY, STAMP, stamp_of
from ullage.space.accounts import NAMESPACE_ACCOUNT, vm_of
from ullage.space.quota import SpaceUsage, Usage, spelled

METHODS: Final[Mapping[str, str]] = {
    methods.ENGINE_HEAD: "by what the engine's head holds",
    methods.ENGINE_SIZE: "by what the engine says that it holds",
    methods.MEASURED: "by what the volume was measured to hold",
    methods.ALLOCATED_BLOCKS: "by the blocks that the driver says are in use",
    methods.RESTORE_SIZE: "by the size of a volume that is made from it, which is an upper bound",
    methods.LAST_SNAPSHOT: "by what the last snapshot of the volume took, which it may pass",
    methods.CAPACITY: "by the capacity of the claim, which is an upper bound",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """An account, what the object takes from it, and how it stands: in bytes, or in snapshots."""

    account: str
    takes: int | None
    usage: Usage
    exact: bool
    known: bool = True  # somebody says what is used
    counts: bool = False  # snapshots

    @property
    def free(self) -> int | None:
        return None if self.usage.limit is None else self.usage.limit - self.usage.used

    def spelled(self, amount: int | None, *, down: bool = False) -> str:
        if amount is None:
            return NONE
        if self.counts:
            return f"{amount} snapshot{'' if amount == 1 else 's'}" if amount else "0"
        return spelled(amount, down=down)


def takings(meta: Meta) -> dict[str, int] | None:
    """By account; None: nobody has said yet, or it cannot be read."""
    if STAMP not in meta.annotations:
        return None
    try:
        return {cell.account: amount.value() for cell, amount in stamp_of(meta).cells.items()}
    except UllageError:
        return None


def count_row(account: str, takes: int | None, count: SnapshotCount) -> AccountRow:
    usage = Usage(count.used + (count.reserved or 0), count.reserved or 0, count.limit)
    return AccountRow(account=account, takes=takes, usage=usage, exact=count.reserved is not None, counts=True)


def rows(accounts: Mapping[str, int | None], usage: SpaceUsage, *, exact: bool, known: bool = True) -> list[AccountRow]:
    """The narrower accounts first, as they are asked. `known`: whether anybody says what is used."""

    def standing(account: str) -> Usage:
        return usage.namespace if account == NAMESPACE_ACCOUNT else usage.vms.get(vm_of(account), Usage())

    order = sorted(accounts, key=lambda name: (name == NAMESPACE_ACCOUNT, name))
    return [
        AccountRow(account=name, takes=accounts[name], usage=standing(name), exact=exact and known, known=known)
        for name in order
    ]


def takes_line(meta: Meta) -> str:
    """What it takes, how that is known, and who pays where it does not."""
    found = takings(meta)
    if found is None:
        return "not known yet: nobody has said what it takes"
    if not found:
        owner = next((one for one in meta.owner_references if one.controller), None)
        return f"nothing: {owner.kind} {owner.name} pays for it" if owner else "nothing: another object pays for it"
    method = meta.annotations.get(ESTIMATED_BY, "")
    how = f", known {METHODS[method]}" if method in METHODS else ""
    return f"{spelled(max(found.values()))}{how}"


def answer(head: Sequence[tuple[str, str]], accounts: Sequence[AccountRow], events: Sequence[Event], *, now: datetime) -> str:
    lines = [f"{f'{name}:':<10} {plain(text)}" for name, text in head]
    if accounts:
        lines += ["", table(accounts)]
        lines += [
            f"{one.account} is {one.spelled(-free)} over its limit: no new snapshot is admitted"
            for one, free in _over(accounts)
        ]
    if events:
        lines += ["", event_table(events, now)]
    return "\n".join(lines)


def table(accounts: Sequence[AccountRow]) -> str:
    found = [("ACCOUNT", "TAKES", "USED", "RESERVED", "LIMIT", "FREE")]
    for one in accounts:
        usage = one.usage
        found.append(
            (
                one.account,
                one.spelled(one.takes),
                one.spelled(usage.used - usage.reserved if one.known else None),
                one.spelled(usage.reserved if one.exact else None),
                "none" if usage.limit is None else one.spelled(usage.limit, down=True),
                one.spelled(None if one.free is None else max(0, one.free), down=True),
            )
        )
    return aligned(found)


def written(head: Mapping[str, str], accounts: Sequence[AccountRow]) -> Json:
    """For programs: bytes, or numbers of snapshots (`snapshot-count/…`). What is not known is left out."""
    found = []
    for one in accounts:
        used = one.usage.used - one.usage.reserved if one.known else None
        reserved = one.usage.reserved if one.exact else None
        amounts = {"used": used, "takes": one.takes, "reserved": reserved, "limit": one.usage.limit, "free": one.free}
        known = {name: amount for name, amount in amounts.items() if amount is not None}
        found.append({"account": one.account, **known})
    return {**head, "accounts": found}


def _over(accounts: Sequence[AccountRow]) -> list[tuple[AccountRow, int]]:
    return [(one, one.free) for one in accounts if one.free is not None and one.free < 0]
