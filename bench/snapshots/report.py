"""The figures as tables that people read: one for each load, with every way beside the tuned peer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.ledger.report import aligned
from bench.snapshots.course import Measured, Phase, percentile
from bench.snapshots.ways import TUNED_ONES, Load, Way

Runs = Mapping[Way, Measured]
AIM: Final = 1 / 3  # of the tuned peer's time
HEADER: Final = ["", "s", "to (b)", "p50 s", "p99 s", "writes each", "of them events", "refused", "others"]


def render(load: Load, runs: Runs) -> str:
    parts = [f"== {load.name}"]
    for title, gone in (("to ready", False), ("to gone", True)):
        rows = [_row(way, runs, load=load, gone=gone) for way in runs]
        parts.append(aligned([[title, *HEADER[1:]], *rows]))
    parts.append(aligned([["CPU seconds, both", "snapshotter", "apiserver", "etcd", "driver", "peak RSS MB"], *_costs(runs)]))
    parts += [_aims(way, runs) for way in runs if way is not TUNED_ONES and way.most is None]
    return "\n\n".join(parts)


def _row(way: Way, runs: Runs, *, load: Load, gone: bool) -> list[str]:
    phase = _phase(runs[way], gone=gone)
    ratio = ratio_of(way, runs, gone=gone)
    writes = phase.writes
    return [
        way.name,
        f"{phase.seconds:,.2f}",
        f"{ratio:.2f}" if ratio is not None else "",
        f"{percentile(phase.each, 0.5):,.2f}",
        f"{percentile(phase.each, 0.99):,.2f}",
        f"{writes.writes / load.snapshots:.1f}",
        f"{writes.events() / load.snapshots:.1f}",
        f"{writes.refused() / load.snapshots:.1f}",
        f"{phase.others:.1f}",
    ]


def _costs(runs: Runs) -> list[list[str]]:
    return [
        [
            way.name,
            ", ".join(f"{name} {_cpu(run, name):.1f}" for name in run.peak),
            *(f"{_cpu(run, name):.1f}" for name in ("kube-apiserver", "etcd", "driver")),
            f"{', '.join(f'{name} {size:.0f}' for name, size in run.peak.items())}",
        ]
        for way, run in runs.items()
    ]


def ratio_of(way: Way, runs: Runs, *, gone: bool) -> float | None:
    """The part of the tuned peer's time; None where it was not measured."""
    peer = runs.get(TUNED_ONES)
    return _phase(runs[way], gone=gone).seconds / _phase(peer, gone=gone).seconds if peer else None


def _aims(way: Way, runs: Runs) -> str:
    said = []
    for title, gone in (("ready", False), ("gone", True)):
        ratio = ratio_of(way, runs, gone=gone)
        if ratio is None:
            return f"{way.name}: (b) was not measured, so there is nothing to compare it with"
        said.append(f"{'PASS' if ratio <= AIM else 'FAIL'}: {way.name} is {title} in {ratio:.2f} of (b)'s time; the aim is 1/3")
    return "\n".join(said)


def _phase(run: Measured, *, gone: bool) -> Phase:
    return run.gone if gone else run.ready


def _cpu(run: Measured, name: str) -> float:
    return run.ready.cpu[name] + run.gone.cpu[name]
