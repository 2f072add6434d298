"""Which snapshots of a group are not to be kept. Pure.

Each rule names what it does not keep; what any of them names goes. However they are set, these stay: the newest good snapshot
of each claim, one that claims are being restored from, one that is protected, and one that is still in the making. One
that has been in the making for too long counts as failed.

The newest is the one that was cut last. Where a cut lies ahead of now by far, some clock was wrong, or ours is: such a one is
left alone until it is written on it that it was there by now. From then on it is older than what is cut later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ullage.policies.schedules.model import AHEAD, Scheduled
from ullage.policies.schedules.retention import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What goes, the oldest first; how many good ones there are; when the next one is too old. `ahead` are those of which it is
    to be written down that they are there by now."""

    delete: tuple[Scheduled, ...] = ()
    kept: int = 0
    broken: int = 0
    next_expiry: datetime | None = None
    ahead: tuple[Scheduled, ...] = ()


def judge(snapshots: Sequence[Scheduled], limits: Limits, *, now: datetime, in_use: Callable[[Scheduled], bool]) -> Verdict:
    """`in_use` is asked of those only that would go otherwise: it takes a look at all claims that name one."""
    ahead = tuple(one for one in snapshots if one.good and one.known_since > now + AHEAD)
    good = sorted((one for one in snapshots if one.good and one.known_since <= now + AHEAD), key=_newest_first)
    failed = sorted((one for one in snapshots if one.failed or one.given_up(now)), key=_newest_first)
    newest = {one.claim: one for one in reversed(good)}
    may_go = _Once(lambda one: not one.protected and newest.get(one.claim) is not one and not in_use(one))
    gone = {one.key for one in (*_beyond_count(good, limits), *_too_old(good, limits, now)) if may_go(one)}
    gone |= {one.key for one in _beyond_size([one for one in good if one.key not in gone], limits, may_go)}
    broken = [one for one in _beyond(failed, limits.failed) if may_go(one)]
    going = [one for one in reversed(good) if one.key in gone]
    return Verdict(
        delete=(*going, *reversed(broken)),
        kept=len(good) + len(ahead) - len(going),
        broken=len(failed) - len(broken),
        next_expiry=_next_expiry((one for one in good if one.key not in gone), limits, now),
        ahead=ahead,
    )


class _Once:
    """Asks once of each snapshot."""

    def __init__(self, ask: Callable[[Scheduled], bool]) -> None:
        self._ask = ask
        self._known: dict[tuple[str, str], bool] = {}

    def __call__(self, one: Scheduled) -> bool:
        if one.key not in self._known:
            self._known[one.key] = self._ask(one)
        return self._known[one.key]


def _newest_first(one: Scheduled) -> tuple[float, float, float, str]:
    """Those that were there when a clock was put right are in the order of their cuts; drivers that tell one cut for all have
    the times that they are for."""
    return -one.known_since.timestamp(), -one.born.timestamp(), -one.time.timestamp(), one.name


def _beyond_count(good: Sequence[Scheduled], limits: Limits) -> Iterable[Scheduled]:
    return () if limits.count is None else _beyond(good, limits.count)


def _beyond(newest_first: Sequence[Scheduled], count: int) -> Iterable[Scheduled]:
    """Those of each claim after its newest so many. What is protected or in use is one of these, too."""
    seen: dict[str, int] = {}
    for one in newest_first:
        seen[one.claim] = seen.get(one.claim, 0) + 1
        if seen[one.claim] > count:
            yield one


def _too_old(good: Sequence[Scheduled], limits: Limits, now: datetime) -> Iterable[Scheduled]:
    return () if limits.age is None else (one for one in good if now - one.born > limits.age)


def _beyond_size(good: Sequence[Scheduled], limits: Limits, may_go: Callable[[Scheduled], bool]) -> Iterable[Scheduled]:
    """The oldest that may go, of all claims, until the rest is within the limit."""
    if limits.total_size is None:
        return
    total = sum(one.size for one in good)
    for one in reversed(good):
        if total <= limits.total_size:
            return
        if one.size and may_go(one):
            total -= one.size
            yield one


def _next_expiry(good: Iterable[Scheduled], limits: Limits, now: datetime) -> datetime | None:
    """Of those that are too old already, and stay, nothing is to be waited for."""
    if limits.age is None:
        return None
    return min((end for one in good if (end := one.born + limits.age) >= now), default=None)
