"""How often engines are polled, how often a snapshot is tried, how many purges run, and whether Longhorn's kinds are ours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`manage`: the objects are ours to look after. Not so where Longhorn itself runs, and unless it is said: then nothing of
    them is written, and no hook is asked about them."""

    manage: bool = False
    interval: float = 5.0  # seconds between two polls of an engine
    pollers: int = 32  # engines that are polled at the same time
    purges_per_node: int = 4  # volumes that purge at the same time: merging reads and writes all that goes
    tries: int = 10  # of a creation, before it has failed
    ticket_seconds: float = 3600.0  # what an attachment ticket is worth unless it is renewed
