"""Who pays for the time of the processor: whoever's own steps take it."""

from __future__ import annotations

import asyncio

import pytest

from ullage.kube.processor_time import in_parts, metered, paid_by, payer


class Processor:
    """Is busy when it is told to be."""

    def __init__(self) -> None:
        self.busy = 0.0
        self.paid: list[float] = []

    def seconds(self) -> float:
        return self.busy

    async def work(self, *, then: BaseException | None = None) -> str:
        self.busy += 1.0
        try:
            await asyncio.sleep(0)
        finally:
            self.busy += 2.0
        if then is not None:
            raise then
        return "done"

    @property
    def total(self) -> float:
        return sum(self.paid)


async def test_all_steps_are_paid_for_and_the_result_is_given() -> None:
    one = Processor()
    assert await metered(one.work(), one.paid.append, processor=one.seconds) == "done"
    assert one.total == 3.0


async def test_what_others_do_meanwhile_is_not() -> None:
    one = Processor()
    working = asyncio.create_task(metered(one.work(), one.paid.append, processor=one.seconds))
    await asyncio.sleep(0)
    one.busy += 100.0
    assert await working == "done"
    assert one.total == 3.0


async def test_work_that_fails_is_paid_for_and_fails() -> None:
    one = Processor()
    with pytest.raises(ValueError, match="no"):
        await metered(one.work(then=ValueError("no")), one.paid.append, processor=one.seconds)
    assert one.total == 3.0


async def test_work_that_is_cancelled_hears_of_it() -> None:
    one = Processor()
    working = asyncio.create_task(metered(one.work(), one.paid.append, processor=one.seconds))
    await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert one.total == 3.0, "what it does at the end too"


async def test_work_that_takes_too_long_is_ended_by_its_own_timeout() -> None:
    async def limited() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return "too late"
        raise AssertionError("nobody sets it")

    assert await metered(limited(), Processor().paid.append) == "too late"


async def test_without_a_payer_it_is_work_as_ever() -> None:
    assert await metered(Processor().work(), payer()) == "done"


def test_whoever_is_named_pays_as_long_as_that_lasts() -> None:
    paid: list[float] = []
    assert payer() is None
    with paid_by(paid.append):
        spend = payer()
        assert spend is not None
        spend(1.0)
    assert (payer(), paid) == (None, [1.0])


def test_several_pay_equal_parts_and_nobody_for_those_who_need_not() -> None:
    paid: list[float] = []
    payers = [paid.append, None]
    spend = in_parts(payers)
    spend(2.0)
    payers.append(paid.append)
    spend(6.0)
    assert paid == [1.0, 2.0, 2.0]
