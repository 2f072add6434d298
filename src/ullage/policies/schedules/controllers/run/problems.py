"""Why claims get no snapshot in a run: all reasons that differ, the gravest first. Pure.

A refusal is graver than a request to wait, and that is graver than a snapshot that is still in the making. Reasons that differ
in the names and numbers of one claim alone are one reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from ullage.policies.schedules.api import MOST_PROBLEMS, RunProblem

MESSAGE_LIMIT: Final = 1024
_WORD: Final = re.compile(r"[^\s:;,()\"']*\d[^\s:;,()\"']*")


def counted(problems: Sequence[RunProblem], message: str, *, claim: str, refused: bool) -> tuple[RunProblem, ...]:
    """The reasons with one more. Beyond the bound the least grave is left out."""
    for place, one in enumerate(problems):
        if one.refused == refused and _reason(one.message, one.claim) == _reason(message, claim):
            return (*problems[:place], replace(one, others=one.others or one.claim != claim), *problems[place + 1 :])
    new = RunProblem(claim=claim, message=message[:MESSAGE_LIMIT], refused=refused)
    return tuple(_gravest_first((*problems, new)))[:MOST_PROBLEMS]


def told(problems: Iterable[RunProblem], waiting: Sequence[tuple[str, str]] = ()) -> str:
    """All reasons in one message. `waiting` has each claim that is asked to wait, with the answer. Where the message would be
    too long each reason is cut, so that none is hidden by the others."""
    ordered = _gravest_first(problems)
    parts = [_counted(one) for one in ordered if one.refused]
    parts += _of_waiting(waiting)
    parts += [_counted(one) for one in ordered if not one.refused]
    if sum(map(len, parts)) + 2 * len(parts) > MESSAGE_LIMIT:
        most = MESSAGE_LIMIT // len(parts) - 3
        parts = [one if len(one) <= most else f"{one[: most - 1]}…" for one in parts]
    return "; ".join(parts)


def gravest(problems: Iterable[RunProblem], waiting: Sequence[tuple[str, str]] = ()) -> str:
    """The claim that the first reason names; empty where that is a request to wait, or where there is no reason."""
    ordered = _gravest_first(problems)
    return ordered[0].claim if ordered and (ordered[0].refused or not waiting) else ""


def _gravest_first(problems: Iterable[RunProblem]) -> list[RunProblem]:
    return sorted(problems, key=lambda one: not one.refused)


def _counted(one: RunProblem) -> str:
    return f"{one.message} (and other claims)" if one.others else one.message


def _of_waiting(waiting: Sequence[tuple[str, str]]) -> list[str]:
    first: dict[str, str] = {}
    for claim, message in waiting:
        first.setdefault(_reason(message, claim), message)
    shown = list(first.values())[:MOST_PROBLEMS]
    if not shown:
        return []
    more = len(waiting) - len(shown)
    also = [f"{more} more claim{' is' if more == 1 else 's are'} asked to wait"] if more else []
    return [f"tried again: {shown[0]}", *shown[1:], *also]


def _reason(message: str, claim: str) -> str:
    """The message without what is of one claim alone: its name, and words with digits, as amounts and names of snapshots."""
    return _WORD.sub("#", re.sub(rf"(?<![\w.-]){re.escape(claim)}(?![\w.-])", "#", message[:MESSAGE_LIMIT]))
