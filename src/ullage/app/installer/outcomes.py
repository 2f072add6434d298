"""What was done to each object, and why not where nothing was: lines for a person, an exit code for a script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

SHOWN: Final = 5  # names of what goes, of each kind

Verb = Literal["created", "changed", "unchanged", "deleted", "left alone", "absent", "waiting", "problem"]


@dataclass(frozen=True, slots=True)
class Outcome:
    verb: Verb
    what: str  # the kind, in lower case, as kubectl names it
    name: str
    why: str = ""

    def __str__(self) -> str:
        return (
            f"{self.verb:<10}  {f'{self.what}/{self.name}' if self.name else self.what}{f'  ({self.why})' if self.why else ''}"
        )


Report = Callable[[Outcome], None]


def summary(outcomes: Iterable[Outcome], *, dry_run: bool = False) -> str:
    """`3 created, 12 unchanged, 1 problem`"""
    counted = Counter(outcome.verb for outcome in outcomes if outcome.verb != "waiting")
    told = ", ".join(f"{count} {verb}{'s' if verb == 'problem' and count > 1 else ''}" for verb, count in counted.items())
    return f"{told or 'nothing to do'}{' (dry run: nothing was written)' if dry_run else ''}"


def plan(outcomes: Iterable[Outcome]) -> list[str]:
    """What a dry run has found, for a person who is to agree: what goes by kind, the first few by name, and what stays."""
    lines = []
    going: dict[str, list[str]] = {}
    for one in outcomes:
        if one.verb == "deleted":
            going.setdefault(one.what, []).append(one.name)
    for what, names in going.items():
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        lines.append(f"  delete      {_counted(len(names), what)}: {', '.join(names[:SHOWN])}{more}")
    return lines + [f"  {one}" for one in outcomes if one.verb != "deleted"]


def _counted(count: int, what: str) -> str:
    if count == 1:
        return f"1 {what}"
    return f"{count} {what[:-1]}ies" if what.endswith("y") else f"{count} {what}{'es' if what.endswith('s') else 's'}"


def failed(outcomes: Iterable[Outcome]) -> bool:
    return any(outcome.verb == "problem" for outcome in outcomes)
