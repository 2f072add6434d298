"""The figures as tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bench.space.report import quantile

if TYPE_CHECKING:
    from bench.projects.measure import Found

AIM: Final = 1.5  # the p99 of a decision to that of a quota on one cluster, at most


def render(many: Found, one: Found) -> str:
    names = f"| {many.size} | {one.size} |"
    head = [f"| measure {names} ratio | aim |", "|---|---|---|---|---|"]
    rows = [*_quantiles("admission of one machine", many.decisions, one.decisions, aim=AIM)]
    cpu, less = (1e6 * found.cpu / len(found.decisions) for found in (many, one))
    rows.append(f"| admission: CPU of all webhooks | {cpu:,.0f} µs | {less:,.0f} µs | {cpu / less:.2f} | |" if less else "")
    rows += _quantiles("machine to globalUsage, one by one", many.delays, one.delays)
    rows += _quantiles("machine to globalUsage, while filled", many.fill_delays, one.fill_delays)
    rates = [found.size.machines / found.fill_seconds for found in (many, one)]
    rows.append(f"| machines while filled | {rates[0]:,.0f} /s | {rates[1]:,.0f} /s | {rates[0] / rates[1]:.2f} | |")
    rows.append(f"| machines asked for again, after a timeout or the like | {many.asked_again} | {one.asked_again} | | |")
    rows.append(f"| quotas without machines, divided | {many.divided_seconds:,.0f} s | {one.divided_seconds:,.0f} s | | |")
    rows += [
        f"| CPU while filled, a machine: {sort} | {1e3 * spent / many.size.machines:,.1f} ms"
        f" | {1e3 * one.fill_cpu[sort] / one.size.machines:,.1f} ms | | |"
        for sort, spent in many.fill_cpu.items()
    ]
    memory = [f"| memory, the largest of each {names}", "|---|---|---|"]
    memory += [f"| {name} | {size:,.0f} MB | {one.memory[name]:,.0f} MB |" for name, size in many.memory.items()]
    return "\n".join([*head, *filter(None, rows), "", *memory, "", _said(many)])


def _quantiles(what: str, many: list[float], one: list[float], *, aim: float | None = None) -> Iterator[str]:
    for name, part in (("p50", 0.5), ("p99", 0.99)):
        large, small = quantile(many, part), quantile(one, part)
        ratio = f"{large / small:.2f}" if small else ""
        kept = ""
        if aim is not None and name == "p99":
            kept = f"≤ {aim}: {'kept' if large <= aim * small else '**missed**'}"
        about = f"{what}: {name} of {len(many):,} and {len(one):,}"
        yield f"| {about} | {1e3 * large:,.1f} ms | {1e3 * small:,.1f} ms | {ratio} | {kept} |"


def _said(many: Found) -> str:
    size = many.size
    return (
        f"{size.clusters} of the {size.projects:,} projects have a user cluster on every seed; the others have a quota, its "
        "copies and a ledger on every seed, and no machines."
    )
