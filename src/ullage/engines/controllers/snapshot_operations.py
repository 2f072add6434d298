"""The operations on an engine for one snapshot: take it, remove it. Each may be repeated at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ullage.engines.api import Snapshot
from ullage.engines.chain import HEAD, Entry, Limits, PurgeProgress
from ullage.engines.client.errors import LIMITS, Reason
from ullage.engines.client.interface import EngineClient
from ullage.engines.controllers.snapshot_rules import Removal, removal
from ullage.errors import Impossible, NotNow, Retryable


class PurgeFailed(Retryable):
    """A purge began and ended with an error."""


@dataclass(frozen=True, slots=True)
class Removed:
    """How far a removal is, and what the engine has of the snapshot yet."""

    removal: Removal
    entry: Entry | None = None


async def take(engine: EngineClient, snapshot: Snapshot, *, limits: Limits) -> None:
    """Has the engine take it, unless it has it: a snapshot whose answer was lost is not taken twice. `limits` are the volume's:
    the engine may not have heard yet that they were changed."""
    name = snapshot.metadata.name
    if await engine.has(name):
        return
    try:
        await engine.create(name, snapshot.spec.labels or {})
    except Impossible as error:
        if error.reason != Reason.EXISTS:
            raise
    except NotNow as error:
        if error.reason not in LIMITS or not await _changes(engine, limits):
            raise
        await engine.create(name, snapshot.spec.labels or {})


async def _changes(engine: EngineClient, limits: Limits) -> bool:
    """Whether the engine had other limits, and has these now."""
    if await engine.limits() == limits:
        return False
    try:
        await engine.set_limits(limits)
    except NotNow as error:
        if error.reason != Reason.BELOW_USAGE:
            raise
        return False
    return True


async def remove(
    engine: EngineClient, snapshot: Snapshot, *, purged_with: frozenset[str] | None, may_purge: Callable[[], bool]
) -> Removed:
    """Goes one step on with a removal. What is told is what was found before that step. `may_purge` takes one of the node's
    places for a purge, if there is one."""
    name = snapshot.metadata.name
    entry = (await engine.list()).get(name)
    if entry is not None and not entry.removed:
        await engine.mark_removed(name)
        entry = replace(entry, removed=True)
    purges = await engine.purge_status() if entry is not None and entry.children != {HEAD} else {}
    found = removal(entry, purges, purged_with=purged_with)
    if found is Removal.NOT_MERGED and (problem := _problem(purges.values())):
        raise PurgeFailed(f"the engine could not merge it away: {problem}")
    if found is Removal.PURGE and not may_purge():
        found = Removal.QUEUED
    if found is Removal.PURGE:
        try:
            await engine.purge()
        except NotNow as error:
            if error.reason != Reason.PURGING:
                raise
            found = Removal.PURGING
    return Removed(found, entry)


def _problem(purges: Iterable[PurgeProgress]) -> str:
    return next((one.error for one in purges if one.error), "")
