"""The calls to engines are timed by operation and outcome; deletions are `delete`, and polls have a meter of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from ullage.clock import FakeClock
from ullage.engines.chain import Limits
from ullage.engines.client.interface import EngineClient, EngineClients
from ullage.engines.client.metered import MeteredEngines
from ullage.engines.metrics import Metrics
from ullage.errors import Impossible, NotNow, Uncertain


class SlowEngines:
    """Every call takes two seconds, and ends as it was told to."""

    def __init__(self, clock: FakeClock, end: Exception | None) -> None:
        self._clock = clock
        self._end = end

    def of(self, volume: str) -> EngineClient:
        return cast(EngineClient, self)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*_: object, **__: object) -> Any:
            self._clock.advance(2)
            if self._end is not None:
                raise self._end
            return {}

        return call


CALLS: dict[str, Callable[[EngineClient], Awaitable[Any]]] = {
    "list": lambda engine: engine.list(),
    "look": lambda engine: engine.has("s"),
    "create": lambda engine: engine.create("s", {}),
    "delete": lambda engine: engine.mark_removed("s"),
    "purge": lambda engine: engine.purge(),
    "purge_status": lambda engine: engine.purge_status(),
    "limits": lambda engine: engine.limits(),
    "set_limits": lambda engine: engine.set_limits(cast(Limits, None)),
}
ENDS = {"done": None, "not_now": NotNow("busy"), "impossible": Impossible("never"), "uncertain": Uncertain("no answer")}


@pytest.mark.parametrize("outcome", ENDS)
@pytest.mark.parametrize("operation", CALLS)
async def test_a_call_is_timed_by_operation_and_outcome(operation: str, outcome: str) -> None:
    clock, registry = FakeClock(), CollectorRegistry()
    engines = MeteredEngines(cast(EngineClients, SlowEngines(clock, ENDS[outcome])), Metrics(registry).operated, clock=clock)
    end = ENDS[outcome]
    with pytest.raises(type(end)) if end is not None else nullcontext():
        await CALLS[operation](engines.of("v"))
    labels = {"operation": operation, "outcome": outcome}
    assert registry.get_sample_value("ullage_engine_operation_seconds_count", labels) == 1
    assert registry.get_sample_value("ullage_engine_operation_seconds_sum", labels) == 2


async def test_polls_are_handed_on_and_counted_elsewhere() -> None:
    clock, registry = FakeClock(), CollectorRegistry()
    engines = MeteredEngines(cast(EngineClients, SlowEngines(clock, None)), Metrics(registry).operated, clock=clock)
    await engines.of("v").poll()
    assert registry.get_sample_value("ullage_engine_operation_seconds_count", {"operation": "poll", "outcome": "done"}) is None
