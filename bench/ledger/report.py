"""The figures of all rounds, as tables that people read: the median of the rounds, and how far they lie apart."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bench.ledger.ways import Measured, Way

Rounds = Mapping[Way, Sequence[Measured]]
AIM_P99, AIM_ACCOUNTS = 2.0, 1.5
RATES_HEADER = ["", "creates/s", "p50 ms", "p99 ms", "creates/s to (b)", "p99 to (b)", "CPU of (b) to it", "others"]
GROUPS = ("kube-apiserver", "etcd", "kube-controller-manager", "replicas", "leader", "client")


def render(rounds: Rounds) -> str:
    """Three tables, and whether the aims were reached."""
    ledgers = {way: runs for way, runs in rounds.items() if way.role == "ledger"}
    parts = [
        aligned([RATES_HEADER, *map(_rates(rounds), rounds)]),
        "(others: processors that were busy with something else meanwhile; where those are many, CPU says more than creates/s)",
        "How the ledger did:",
        aligned([LEDGER_HEADER, *(_ledger_row(way, runs) for way, runs in ledgers.items())]),
        "Where the time goes: microseconds of CPU a create, and connections that the API server opened to webhooks",
        aligned([["", *GROUPS, "together", "connections"], *(_cpu_row(way, runs) for way, runs in rounds.items())]),
        "\n".join([*(_aims(way, rounds) for way in ledgers), *_accounts(ledgers)]),
    ]
    return "\n\n".join(parts)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def spread(values: Sequence[float], digits: int = 0) -> str:
    """`1,150 (1,020–1,230)`"""
    middle = f"{statistics.median(values):,.{digits}f}"
    return f"{middle} ({min(values):,.{digits}f}–{max(values):,.{digits}f})" if len(values) > 1 else middle


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)] if values else 0.0


# --- beside the webhook that does nothing ---


def ratios(way: Way, rounds: Rounds, figure: Callable[[Measured], float]) -> list[float]:
    """Round by round, so that what slows the whole machine down slows both."""
    peer = next((other for other in rounds if other.role == "nothing" and other.replicas == way.replicas), None)
    pairs = zip(rounds[way], rounds[peer], strict=False) if peer and way.role == "ledger" else ()
    return [figure(own) / figure(other) for own, other in pairs]


def _rates(rounds: Rounds) -> Callable[[Way], list[str]]:
    def row(way: Way) -> list[str]:
        runs = rounds[way]
        rate, p99 = ratios(way, rounds, lambda run: run.rate.per_second), ratios(way, rounds, lambda run: run.rate.p99)
        cpu = ratios(way, rounds, lambda run: 1 / run.spent)
        return [
            way.full_name,
            spread([run.rate.per_second for run in runs]),
            spread([run.rate.p50 * 1e3 for run in runs]),
            spread([run.rate.p99 * 1e3 for run in runs]),
            spread(rate, 2) if rate else "",
            spread(p99, 2) if p99 else "",
            spread(cpu, 2) if cpu else "",
            spread([run.others for run in runs], 1),
        ]

    return row


def aim(way: Way) -> float:
    """What part of the creates of (b) there are to be."""
    return 0.35 if way.tenants > 1 else 0.8 if way.replicas == 1 else 0.6


def _aims(way: Way, rounds: Rounds) -> str:
    rate, p99 = ratios(way, rounds, lambda run: run.rate.per_second), ratios(way, rounds, lambda run: run.rate.p99)
    if not rate:
        return f"{way.full_name}: nothing to compare it with was measured"
    said = f"creates/s {'reach' if statistics.median(rate) >= aim(way) else 'miss'} the aim of {aim(way)}× of (b)"
    if way.tenants == 1 and way.replicas == 1:
        said += f", p99 {'keeps' if statistics.median(p99) <= AIM_P99 else 'misses'} the aim of {AIM_P99:.0f}×"
    return f"{way.full_name}: {said}"


def _accounts(ledgers: Rounds) -> list[str]:
    """What many accounts cost, in CPU of all processes."""
    said = []
    for way, runs in ledgers.items():
        one = next((runs for other, runs in ledgers.items() if other == replace(way, name=other.name, accounts=1)), None)
        if way.accounts > 1 and one:
            cost = [many.spent / single.spent for many, single in zip(runs, one, strict=False)]
            verdict = "keeps" if statistics.median(cost) <= AIM_ACCOUNTS else "misses"
            said.append(f"{way.full_name}: {spread(cost, 2)}× the CPU of one account, {verdict} the aim of {AIM_ACCOUNTS}×")
    return said


# --- inside ---

LEDGER_HEADER = [
    "",
    "writes a decision, and the leader's",
    "batch mean, p50, max",
    "conflicts",
    "bytes a decision",
    "write p50, p99 ms",
    "a decision waits, writes ms",
    "pending for p50, max s",
]


def _ledger_row(way: Way, runs: Sequence[Measured]) -> list[str]:
    """All rounds together: these are no race against the clock."""
    decisions = sum(run.asked["decisions"] for run in runs)
    writes = [write for run in runs for write in run.asked["writes"]]
    done = [(seconds, size) for seconds, size in writes if size]
    sizes, times = [size for _, size in done], [seconds for seconds, _ in done]
    writing = sum(seconds * size for seconds, size in done) / decisions
    whole = sum(run.asked["seconds"] for run in runs) / decisions
    late = [seconds for run in runs for seconds in run.late["late"]]
    oldest = max(run.late["oldest"] for run in runs)
    return [
        way.full_name,
        f"{len(writes) / decisions:.3f}, {sum(run.late['folds'] for run in runs) / decisions:.3f}",
        f"{statistics.mean(sizes):.1f}, {statistics.median(sizes):.0f}, {max(sizes)}",
        f"{sum(run.asked['conflicts'] for run in runs):,.0f} of {len(writes):,}",
        f"{sum(run.asked['bytes'] for run in runs) / decisions:,.0f}",
        f"{statistics.median(times) * 1e3:.0f}, {percentile(times, 0.99) * 1e3:.0f}",
        f"{(whole - writing) * 1e3:.0f}, {writing * 1e3:.0f}",
        f"{statistics.median(late or [0]):.2f}, {max([*late, oldest]):.2f}",
    ]


def _cpu_row(way: Way, runs: Sequence[Measured]) -> list[str]:
    groups = [statistics.median(run.cpu[name] * 1e6 for run in runs) for name in GROUPS]
    together = statistics.median(run.spent * 1e6 for run in runs)
    opened = statistics.median(run.connections for run in runs)
    return [way.full_name, *(f"{value:,.0f}" if value else "" for value in groups), f"{together:,.0f}", f"{opened:.2f}"]
