"""Engines that run. Real ones are found by what their Engines say: the instance's address, which whoever starts one writes."""

from __future__ import annotations

from ullage.engines.client.engine import RunningEngines
from ullage.engines.client.interface import EngineClients
from ullage.engines.handles import NAMESPACE
from ullage.engines.lookup import lookup_of
from ullage.engines.model import instance_address, next_size
from ullage.kube.cache.indexer import Key
from ullage.kube.slices import Wiring


def running_engines(wiring: Wiring) -> EngineClients:
    """For as long as the wiring's work goes on. While a volume migrates it has two engines, and none is asked."""
    lookup = wiring.shared(lookup_of)

    def address(volume: str) -> str:
        found = lookup.engines_of(Key(NAMESPACE, volume))
        return instance_address(found[0]) if len(found) == 1 else ""

    engines = RunningEngines(address)
    wiring.hold(engines)
    return engines


async def ask_head_size(engines: EngineClients, volume: str, *, volume_size: int = 0) -> int:
    """The bytes that the next snapshot of a volume would take, as `model.head_size` has it, but as its engine says right now.
    NotNow, with the reason DETACHED: no engine serves it."""
    return next_size(await engines.of(volume).list(), volume_size=volume_size)
