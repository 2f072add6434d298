"""The accounts that have a limit, for Prometheus.

Tenants and accounts are labels here, and nowhere else: only what somebody has limited is shown, and of that no more than
`MOST`. Ledgers come in the order of their names, so that a series does not come and go; how many are left out is told. A limit
on each account of a sort (`snapshot-count/claim/*`) is one series, of the fullest of them: however many accounts a tenant has,
nobody else's are left out for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ullage.clock import Clock, SystemClock
from ullage.errors import UllageError
from ullage.kube.cache.cache import Cache
from ullage.ledger.accounts import Account, accounts
from ullage.ledger.amounts import EACH, Cell, is_for_each
from ullage.ledger.api import Ledger
from ullage.ledger.book import Book
from ullage.ledger.codec import book_of
from ullage.quantity import Quantity

MOST: Final = 2000  # accounts that are shown
LABELS: Final = ("ledger", "account", "resource")


class AccountCollector(Collector):
    """Reads a cache when it is asked. Of a ledger that has not changed since, nothing is worked out again."""

    def __init__(self, ledgers: Cache[Ledger], *, clock: Clock | None = None, most: int = MOST) -> None:
        self._ledgers = ledgers
        self._clock = clock or SystemClock()
        self._most = most
        self._known: dict[str, tuple[str, tuple[Account, ...] | None]] = {}  # by ledger: its version, and what is limited

    def describe(self) -> Iterator[Metric]:
        """Registering asks for the names: they are the same with nothing to show."""
        return iter(_Families().all())

    def collect(self) -> Iterator[Metric]:
        self._known = {ledger.metadata.name: self._limited(ledger) for ledger in self._ledgers.items()}
        families, left = _Families(), self._most
        for name, (_, limited) in sorted(self._known.items()):
            if limited is None:
                families.unreadable += 1
                continue
            for one in limited[:left]:
                families.show(name, one)
            families.left_out += len(limited[left:])
            left -= len(limited[:left])
        yield from families.all()

    def _limited(self, ledger: Ledger) -> tuple[str, tuple[Account, ...] | None]:
        version = ledger.metadata.resource_version
        known = self._known.get(ledger.metadata.name)
        if known is not None and known[0] == version:
            return known
        try:
            book = book_of(ledger, now=self._clock.now())
        except UllageError:
            return version, None
        return version, tuple(_limited(book))


class _Families:
    def __init__(self) -> None:
        self.left_out = 0
        self.unreadable = 0
        self._used = GaugeMetricFamily("ullage_ledger_used", "What is counted, of an account with a limit", labels=LABELS)
        self._reserved = GaugeMetricFamily(
            "ullage_ledger_reserved", "What was admitted and is not counted yet, of an account with a limit", labels=LABELS
        )
        self._limit = GaugeMetricFamily("ullage_ledger_limit", "The limit of an account", labels=LABELS)

    def show(self, ledger: str, one: Account) -> None:
        assert one.limit is not None
        for family, quantity in ((self._used, one.used), (self._reserved, one.reserved), (self._limit, one.limit)):
            family.add_metric([ledger, one.name, one.resource], _number(quantity))

    def all(self) -> list[Metric]:
        omitted = GaugeMetricFamily("ullage_ledger_accounts_omitted", "Limited accounts beyond what is shown")
        omitted.add_metric([], self.left_out)
        broken = GaugeMetricFamily("ullage_ledger_unreadable", "Ledgers that cannot be read")
        broken.add_metric([], self.unreadable)
        return [self._used, self._reserved, self._limit, omitted, broken]


def _limited(book: Book) -> Iterator[Account]:
    """An account for each limit."""
    found = {Cell(one.name, one.resource): one for one in accounts(book)}
    for cell in sorted(book.limits):
        yield _fullest(found, cell, book) if is_for_each(cell) else found[cell]


def _fullest(found: Mapping[Cell, Account], each: Cell, book: Book) -> Account:
    """The one that has most, of those that a limit on each is on; under the name of the limit."""
    sort = each.account.removesuffix(f"/{EACH}")
    under = (one for cell, one in found.items() if cell not in book.limits and cell.resource == each.resource)
    beside = (one for one in under if one.name.rpartition("/")[0] == sort)
    return replace(max(beside, key=lambda one: one.used + one.reserved, default=found[each]), name=each.account)


def _number(quantity: Quantity) -> float:
    return quantity.nanos / 10**9
