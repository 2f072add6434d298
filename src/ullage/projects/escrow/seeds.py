"""What a seed shows of a project: its ledger, in the terms of the escrow. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ullage.ledger.amounts import Amounts, Cell, Limits, Wanted, parse_limits
from ullage.ledger.api import Ledger
from ullage.ledger.codec import LedgerError, book_of
from ullage.ledger.limits import is_about, unreached
from ullage.projects.names import ACCOUNT

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)  # when a first limit was noticed: not asked for here


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedLedger:
    """A project's ledger on a seed. One that is not there has no limits, and is as good as one that says nothing."""

    change: int = 0  # the number of the change that its limits are
    limits: Limits = field(default_factory=dict)
    grants: Limits = field(default_factory=dict)
    taken: Amounts = field(default_factory=Amounts)  # used and reserved
    demand: Mapping[str, Wanted] = field(default_factory=dict)  # by resource
    unreached: str = "there is no ledger"  # why that change is not reached yet; empty where it is


NO_LEDGER = SeedLedger()


def seed_ledger(ledger: Ledger | None, account: str = ACCOUNT) -> SeedLedger:
    """What a seed that can be asked shows. Raises `Terminal` (`LedgerError`, `PackedError`) for a ledger that cannot be read:
    such a seed counts as one that was not seen, and keeps what it has. Whatever the account is called there, it is `ACCOUNT` in
    the terms of the escrow."""
    if ledger is None:
        return NO_LEDGER
    book = book_of(ledger, now=_ANY_TIME)
    try:
        limits = parse_limits(ledger.spec.limits, field="spec.limits")
        grants = parse_limits(ledger.spec.grants, field="spec.grants")
    except ValueError as error:
        raise LedgerError(f"ledger {ledger.metadata.name}: {error}") from error
    return SeedLedger(
        change=ledger.spec.change,
        limits=_ours(limits, account),
        grants=_ours(grants, account),
        taken=book.used.account(account) + book.reserved.account(account),
        demand={cell.resource: wanted for cell, wanted in book.demand.items() if cell.account == account},
        unreached=unreached(ledger, ledger.spec.change),
    )


def _ours(limits: Limits, account: str) -> Limits:
    """What is not of the account itself, but of one below it, keeps its name: nobody grants that."""
    found = {cell: limit for cell, limit in limits.items() if is_about(cell.account, account)}
    return {Cell(ACCOUNT, cell.resource) if cell.account == account else cell: limit for cell, limit in found.items()}
