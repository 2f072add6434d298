"""The figures of a run, as a table that people read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: a measure in its unit. `more` says whether more of it is better."""

    name: str
    unit: str
    value: float
    more: bool
    aim: str = ""


def ratio(ours: Figure, theirs: Figure) -> str:
    """How many times better we are than the peer; below one is worse."""
    if not ours.value or not theirs.value:
        return "-"
    times = ours.value / theirs.value if ours.more else theirs.value / ours.value
    return f"{times:.2f}x"


def shown(figure: Figure) -> str:
    digits = 0 if figure.value >= 100 else 2
    return f"{figure.value:,.{digits}f} {figure.unit}".strip()


def render(
    ours: Sequence[Figure], peer: Sequence[Figure] | None, *, names: tuple[str, str] = ("embedded", "kube-apiserver")
) -> str:
    """Aligned columns; peer and ratio only where there is a peer."""
    header = ["measure", names[0], *([names[1], "ratio"] if peer else []), "aim"]
    rows = [header]
    others = {figure.name: figure for figure in peer or ()}
    for figure in ours:
        other = others.get(figure.name)
        beside = [shown(other) if other else "-", ratio(figure, other) if other else "-"] if peer else []
        rows.append([figure.name, shown(figure), *beside, figure.aim])
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
