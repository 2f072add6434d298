"""The figures of a run, as tables that people read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.apiserver.table import Figure, render
from bench.engines.ours import EXTRA
from bench.engines.polls import Cost
from bench.engines.volumes import Scale, snapshot_name, volume_name
from ullage.engines.settings import Settings

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Point:
    """One size: what the process that started cold said, and the one before it that made all objects, if there was one."""

    scale: Scale
    cold: dict[str, Json]
    upgraded: dict[str, Json] | None = None

    @property
    def sync(self) -> float:
        """Seconds from a process that has its imports to one that has read and looked at everything."""
        return spent(self.cold, "seconds", "started", "synced")

    @property
    def per_object(self) -> float:
        """Bytes of memory for each Snapshot, with its part of the Engine that shows it too."""
        return float(self.cold["calm"]["rss"] - self.cold["started"]["rss"]) * 1e6 / self.scale.objects

    @property
    def per_look(self) -> float:
        """Seconds of CPU, of which a made-up engine's answer is a part."""
        return float(self.cold["idle"]["used"] / self.cold["idle"]["looks"])


def spent(moments: dict[str, Json], what: str, since: str, until: str) -> float:
    return float(moments[until][what] - moments[since][what])


def others(moments: dict[str, Json], since: str, until: str) -> float:
    """Processors that were busy with something else: how far the figures can be trusted."""
    whole, ours, server, seconds = (spent(moments, what, since, until) for what in ("machine", "cpu", "server_cpu", "seconds"))
    return max(0.0, whole - ours - server) / seconds


def detail(point: Point) -> str:
    cold, idle, scale = point.cold, point.cold["idle"], point.scale
    of = f"{scale.objects:,} snapshots of {scale.volumes:,} volumes"
    busy = point.per_look * scale.volumes / Settings().interval
    rows = [
        Figure("from its start until it has begun", "s", cold["started"]["seconds"], more=False),
        Figure("cold: until all is read", "s", spent(cold, "seconds", "started", "read"), more=False),
        Figure("cold: until every engine was looked at", "s", point.sync, more=False, aim="30,000: ≤ 10 s"),
        Figure("cold: CPU", "s", spent(cold, "cpu", "started", "synced"), more=False),
        Figure("cold: CPU, the API server's", "s", spent(cold, "server_cpu", "started", "synced"), more=False),
        Figure("cold: processors busy with something else", "", others(cold, "started", "synced"), more=False),
        Figure("cold: API writes", "", cold["synced"]["writes"], more=False, aim="0"),
        Figure("RSS at its start", "MB", cold["started"]["rss"], more=False),
        Figure("RSS once synced", "MB", cold["calm"]["rss"], more=False, aim="30,000: ≤ 200 MB"),
        Figure("RSS at most, until synced", "MB", cold["calm"]["peak"], more=False),
        Figure("idle: polls", "", idle["looks"], more=True),
        Figure("idle: API writes", "", idle["writes"], more=False, aim="0"),
        Figure("idle: writes that the API server counted", "", idle["server"], more=False, aim="0"),
        Figure("idle: queue adds", "", idle["adds"], more=False, aim="0"),
        Figure("idle: CPU of a poll", "µs", point.per_look * 1e6, more=False),
        Figure("idle: CPU at one poll every 5 s", "%", 100 * busy, more=False),
        Figure("RSS after the polls", "MB", idle["rss"], more=False),
        Figure("one snapshot: until it is ready", "ms", 1e3 * cold["one"]["spent"], more=False),
        Figure("one snapshot: API writes, Event included", "", cold["one"]["writes"], more=False),
    ]
    if point.upgraded is not None:
        rows += _upgrade(point.upgraded, scale.objects)
    return f"\n{of}\n{render(rows, None, names=('ullage', ''))}\n{_keys(point)}"


def _upgrade(told: dict[str, Json], objects: int) -> list[Figure]:
    whole = spent(told, "seconds", "started", "ready")
    return [
        Figure("upgrade: until all objects are made", "s", spent(told, "seconds", "started", "made"), more=False),
        Figure("upgrade: until all are ready", "s", whole, more=False),
        Figure("upgrade: objects", "/s", objects / whole, more=True),
        Figure("upgrade: CPU, ours", "s", spent(told, "cpu", "started", "ready"), more=False),
        Figure("upgrade: CPU, the API server's", "s", spent(told, "server_cpu", "started", "ready"), more=False),
        Figure("upgrade: processors busy with something else", "", others(told, "started", "ready"), more=False),
        Figure("upgrade: API writes an object", "", told["ready"]["writes"] / objects, more=False),
        Figure("upgrade: RSS at most", "MB", told["ready"]["peak"], more=False),
    ]


def _keys(point: Point) -> str:
    """Whose keys one snapshot had reconciled, in words: its own, its parent's, anybody else's."""
    volume = volume_name(0)
    parent = snapshot_name(volume, point.scale.snapshots - 1)
    names = {EXTRA: "its own", parent: "its parent's", volume: "its volume's"}
    keys = dict(point.cold["one"]["keys"])
    looked = sum(keys.pop("engine-monitor")["added"].values())
    lines = [f"  {name}: {_told(one['run'], names)} ({sum(one['added'].values())} adds)" for name, one in keys.items()]
    return "\n".join(["one snapshot had these keys reconciled:", *lines, f"  engine-monitor: {looked} adds"])


def _told(runs: dict[str, int], names: dict[str, str]) -> str:
    others = [name for name in runs if name not in names]
    parts = [f"{names[name]} {count}x" for name, count in runs.items() if name in names]
    return ", ".join([*parts, *([f"{len(others)} OTHERS"] if others else [])]) or "none"


CURVE = ("snapshots", "cold sync s", "µs each", "CPU s", "others", "RSS MB", "most MB", "bytes each", "µs a poll")


def curve(points: Sequence[Point]) -> str:
    """`others`: processors that were busy with something else."""
    rows = [CURVE, *map(_row, points)]
    return "\n".join(["", *(" ".join(cell.rjust(11) for cell in row) for row in rows)])


def _row(point: Point) -> tuple[str, ...]:
    count, calm = point.scale.objects, point.cold["calm"]
    cpu, busy = spent(point.cold, "cpu", "started", "synced"), others(point.cold, "started", "synced")
    memory = (f"{calm['rss']:.0f}", f"{calm['peak']:.0f}", f"{point.per_object:,.0f}")
    sync = (f"{point.sync:.2f}", f"{1e6 * point.sync / count:.0f}", f"{cpu:.2f}", f"{busy:.1f}")
    return (f"{count:,}", *sync, *memory, f"{1e6 * point.per_look:.0f}")


def polls(costs: Sequence[Cost]) -> str:
    scale = costs[0].scale
    lines = ["", f"a look at one of {scale.volumes} volumes with {scale.snapshots} snapshots, embedded host:"]
    for one in costs:
        lines.append(
            f"  {one.way}: {1e3 * one.spent:.2f} ms, CPU {1e3 * one.ours:.2f} ms ours + {1e3 * one.host:.2f} ms the host's; "
            f"{one.looks:,} looks, host {one.rss:.0f} MB"
        )
    return "\n".join(lines)
