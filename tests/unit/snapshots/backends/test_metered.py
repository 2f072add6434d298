"""The calls to drivers are timed by operation and outcome, those that fail and those that delete too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from ullage.clock import FakeClock
from ullage.errors import Impossible, NotNow, Uncertain
from ullage.snapshots.backends.base import Backend, BackendSnapshot, Creation, Restoration, VolumeHandle
from ullage.snapshots.backends.metered import MeteredBackend
from ullage.snapshots.metrics import operation_meter

VOLUME = VolumeHandle(handle="v")
CREATION = Creation(name="s", volume=VOLUME)
FOUND = BackendSnapshot(handle="h", volume="v", cut=datetime(2026, 1, 1, tzinfo=UTC), ready=True)


class SlowBackend:
    """Every call takes three seconds, and ends as it was told to."""

    driver = "d"

    def __init__(self, clock: FakeClock, end: BaseException | None) -> None:
        self._clock = clock
        self._end = end

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*_: object, **__: object) -> Any:
            self._clock.advance(3)
            if self._end is not None:
                raise self._end
            return FOUND

        return call

    async def list(self, *_: object, **__: object) -> AsyncIterator[BackendSnapshot]:
        yield await self.find()


async def all_of(backend: Backend) -> None:
    async for _ in backend.list():
        pass


CALLS: dict[str, Callable[[Backend], Awaitable[Any]]] = {
    "create": lambda backend: backend.create(CREATION),
    "undo": lambda backend: backend.undo(CREATION),
    "delete": lambda backend: backend.delete("h"),
    "find": lambda backend: backend.find("h"),
    "list": all_of,
    "restore": lambda backend: backend.restore(Restoration(name="pvc-1", snapshot="h", size=1)),
    "discard": lambda backend: backend.discard("h"),
    "size": lambda backend: backend.size("h"),
    "estimate": lambda backend: backend.estimate(VOLUME),
}
ENDS: dict[str, BaseException | None] = {
    "done": None,
    "not_now": NotNow("busy"),
    "impossible": Impossible("never"),
    "uncertain": Uncertain("no answer"),
    "error": KeyError("a"),
    "cancelled": asyncio.CancelledError(),
}


@pytest.mark.parametrize("outcome", ENDS)
@pytest.mark.parametrize("operation", CALLS)
async def test_a_call_is_timed_by_operation_and_outcome(operation: str, outcome: str) -> None:
    clock, registry = FakeClock(), CollectorRegistry()
    backend = MeteredBackend(cast(Backend, SlowBackend(clock, ENDS[outcome])), operation_meter(registry), clock=clock)
    end = ENDS[outcome]
    with pytest.raises(type(end)) if end is not None else nullcontext():
        await CALLS[operation](backend)
    labels = {"driver": "d", "operation": operation, "outcome": outcome}
    assert registry.get_sample_value("ullage_snapshot_operation_seconds_count", labels) == 1
    assert registry.get_sample_value("ullage_snapshot_operation_seconds_sum", labels) == 3
