"""Two slices that charge for one kind: one key, one booking, and what both say."""

from __future__ import annotations

import pytest

from tests.unit.kube.virtual_time import START, in_virtual_time
from tests.unit.ledger.simulated import BY_TEAM, CUPS, Cup, Server, ledger
from tests.unit.ledger.slices import review, running, slice_of, wired
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Cell, Takings
from ullage.ledger.api import LEDGERS
from ullage.ledger.charging.registry import SharedEvaluator
from ullage.ledger.codec import book_of
from ullage.ledger.service.views import Evaluator
from ullage.ledger.slice import LEDGER
from ullage.quantity import Quantity

NUMBER = Cell("number", "cups")


def each(cup: Cup) -> Takings:
    return Takings({NUMBER: Quantity.of(1)})


BY_NUMBER = Evaluator(ledger_of=BY_TEAM.ledger_of, takes=each)
NOWHERE: Evaluator[Cup] = Evaluator(ledger_of=lambda cup: "", takes=each)
ELSEWHERE: Evaluator[Cup] = Evaluator(ledger_of=lambda cup: "another", takes=each)


def test_both_parts_are_booked_by_whoever_decides() -> None:
    async def run() -> None:
        server = Server()
        server.put(LEDGERS, ledger(10))
        wiring = wired(server)
        (hook, _) = wiring.hooks((LEDGER, slice_of(CUPS), slice_of(CUPS, BY_NUMBER)))
        async with running(wiring):
            assert (await hook.answer(review(CUPS, "a", 3))).allowed
            book = book_of(server.ledger(), now=START)
        assert {cell.account: amount.value() for cell, amount in book.reserved.cells.items()}["number"] == 1
        assert len(book.attempts()) == 1
        assert len(book.reserved.cells) == 2

    in_virtual_time(run())


def test_a_part_that_knows_of_no_ledger_takes_nothing() -> None:
    cup = Cup(metadata=Meta(name="a", namespace="team"))
    shared = SharedEvaluator(BY_TEAM, NOWHERE)
    assert shared.evaluator.ledger_of(cup) == BY_TEAM.ledger_of(cup)
    assert NUMBER not in shared.evaluator.takes(cup).cells
    assert SharedEvaluator(NOWHERE).evaluator.ledger_of(cup) == ""


def test_an_object_is_in_one_ledger() -> None:
    with pytest.raises(RuntimeError, match="a: slices put it into 2 ledgers: another, "):
        SharedEvaluator(BY_TEAM, ELSEWHERE).evaluator.ledger_of(Cup(metadata=Meta(name="a", namespace="team")))
