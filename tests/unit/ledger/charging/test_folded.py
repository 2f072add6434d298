"""A ledger and what this process has seen, as of one moment: for whoever acts on both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import msgspec

from tests.unit.kube.virtual_time import START, in_virtual_time
from tests.unit.ledger.simulated import CUPS, Server, creating, ledger, takes
from tests.unit.ledger.slices import running, slice_of, wired
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.book import Observed
from ullage.ledger.charging.registry import Registry, registry_of
from ullage.ledger.codec import book_of, status_of
from ullage.ledger.demand import with_waiters
from ullage.ledger.slice import LEDGER


def with_registry(test: Callable[[Server, Registry], Awaitable[None]]) -> None:
    async def run() -> None:
        server = Server()
        server.put(LEDGERS, ledger(10))
        wiring = wired(server)
        wiring.hooks((LEDGER, slice_of(CUPS)))
        async with running(wiring):
            await test(server, registry_of(wiring))

    in_virtual_time(run())


def test_there_is_none_before_the_caches_have_seen_as_much_as_the_ledger() -> None:
    async def test(server: Server, registry: Registry) -> None:
        server.cup("a", 3)
        await asyncio.sleep(1)
        seen = server.ledger()
        found = registry.folded(seen)
        assert found is not None
        assert [amount.value() for amount in found.used.cells.values()] == [3]

        def ahead(size: int) -> Ledger:
            counted = {CUPS.name: Observed(server.version + 1000, START, takes(size))}
            status = status_of(replace(found, observed=counted), seen, sources={CUPS.name}, now=START)
            return msgspec.structs.replace(seen, status=status)

        assert registry.folded(ahead(4)) is None
        assert registry.folded(ahead(3)) is not None, "a kind that is at rest has nothing to tell"

    with_registry(test)


def test_who_is_there_by_now_waits_no_more() -> None:
    async def test(server: Server, registry: Registry) -> None:
        seen = server.ledger()
        book = with_waiters(book_of(seen, now=START), [creating("a"), creating("b")], START)
        written = msgspec.structs.replace(seen, status=status_of(book, seen, sources=set(), now=START))
        server.cup("a")
        await asyncio.sleep(1)
        found = registry.folded(written)
        assert found is not None
        assert [key.rpartition("/")[2] for key in found.waiting] == ["b"]

    with_registry(test)
