"""What an object takes, told to people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ullage.kube.kinds import Object
from ullage.ledger.accounts import Account, accounts
from ullage.ledger.amounts import NOTHING, Takings
from ullage.ledger.book import Book
from ullage.ledger.refusals import account_text
from ullage.ledger.service.views import Evaluator

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an object takes, and how the accounts stand that it takes from. Nothing is booked by asking."""

    ledger: str  # empty: it is in none
    takes: Takings = NOTHING
    accounts: tuple[Account, ...] = ()  # empty where there is no ledger: nothing is limited
    problem: str = ""  # why it cannot be counted

    def __str__(self) -> str:
        if self.problem:
            return f"cannot be counted: {self.problem}"
        if not self.takes:
            return "takes nothing"
        if not self.accounts:
            return "nothing is limited"
        by_name = {(one.name, one.resource): one for one in self.accounts}
        return "; ".join(account_text(by_name[cell], takes=self.takes[cell]) for cell in sorted(self.takes))


def explain(obj: T, evaluator: Evaluator[T], look: Callable[[str], Book | None]) -> Explanation:
    """`look` gives the book of a ledger, as the process last saw it."""
    ledger = evaluator.ledger_of(obj)
    if not ledger:
        return Explanation("")
    try:
        takes = evaluator.takes(obj)
    except Exception as error:  # what an object takes may be unreadable in any way
        return Explanation(ledger, problem=str(error))
    found = look(ledger)
    if found is None:
        return Explanation(ledger, takes)
    listed = {(one.name, one.resource): one for one in accounts(found)}
    return Explanation(ledger, takes, tuple(listed.get(cell) or Account.empty(cell) for cell in sorted(takes)))
