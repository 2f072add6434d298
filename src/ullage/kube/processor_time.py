"""Who pays for the time of the processor, in a process where everybody's work is done by one thread.

Whoever answers for strangers says who pays (`paid_by`), and has the work `metered`: what its own steps take is told to the
payer, and not what others do while it waits. What is done for several at once, in a task of its own, is told to each of them
in equal parts (`payer`, `in_parts`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from ullage.clock import processor_seconds

T = TypeVar("T")
Spend = Callable[[float], None]
"""Is told how many seconds were spent."""

_PAYER: ContextVar[Spend | None] = ContextVar("payer", default=None)


def payer() -> Spend | None:
    """Who pays for what is asked for here; None: nobody has to."""
    return _PAYER.get()


@contextmanager
def paid_by(spend: Spend) -> Iterator[None]:
    token = _PAYER.set(spend)
    try:
        yield
    finally:
        _PAYER.reset(token)


def in_parts(payers: Sequence[Spend | None]) -> Spend:
    """Each of those who are in the list by then pays the same part, also where some need not pay theirs."""

    def spend_parts(seconds: float) -> None:
        for spend in payers:
            if spend is not None:
                spend(seconds / len(payers))

    return spend_parts


async def metered(
    work: Coroutine[Any, Any, T], spend: Spend | None, *, processor: Callable[[], float] = processor_seconds
) -> T:
    """The result of the work, whose steps are paid for as soon as each is done."""
    return await work if spend is None else await _Metered(work, spend, processor)


class _Metered(Generic[T]):
    """Takes the steps of a coroutine one by one, as its task would."""

    def __init__(self, work: Coroutine[Any, Any, T], spend: Spend, processor: Callable[[], float]) -> None:
        self._work = work
        self._spend = spend
        self._processor = processor

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[Any], Any] = self._work.send
        told: Any = None
        while True:
            began = self._processor()
            try:
                waits_for = step(told)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                self._spend(self._processor() - began)
            try:
                step, told = self._work.send, (yield waits_for)
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:  # a cancellation, say: the work is told, and may go on all the same
                step, told = self._work.throw, error
