"""The figures as a table in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bench.space.decisions import Found, Size

AIM: Final = 1.5  # the p99 of the large namespace to that of the small one, at most


def render(large: Size, found: tuple[Found, Found]) -> str:
    small, filled = found
    head = f"{large.vms:,} VMs, {large.claims:,} claims, {large.snapshots:,} snapshots"
    lines = [
        f"| decision | | one of each | {head} | ratio | aim |",
        "|---|---|---|---|---|---|",
    ]
    for kind, one in small.seconds.items():
        many = filled.seconds[kind]
        for name, part in (("p50", 0.5), ("p99", 0.99)):
            before, after = quantile(one, part), quantile(many, part)
            aim = f"≤ {AIM}: {'kept' if after / before <= AIM else '**missed**'}" if name == "p99" else ""
            lines.append(f"| {kind} | {name} | {1000 * before:.1f} ms | {1000 * after:.1f} ms | {after / before:.2f} | {aim} |")
        cpu, more = small.cpu[kind] / len(one), filled.cpu[kind] / len(many)
        ratio = f"{more / cpu:.2f}" if cpu else ""
        lines.append(f"| {kind} | CPU of the webhook | {1e6 * cpu:,.0f} µs | {1e6 * more:,.0f} µs | {ratio} | |")
    return "\n".join(lines)


def quantile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
