"""How long it takes to copy a guest to another node, and what comes of it if it takes too long. As KubeVirt decides. Pure.

There is no guest, so how fast it writes is said by an annotation on the instance: the seconds that its memory takes to copy,
or that it never ends by itself, because it is written faster than it is copied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ullage.quantity import Quantity, QuantityError
from ullage.vms.migration_settings import MigrationSettings

TIME: Final = "ullage.io/migration-time"  # on an instance: `90s`, or `never`
NEVER: Final = "never"
SLOWED: Final = 2  # a guest that is slowed down needs so many times as long as one that writes little

PRE_COPY: Final = "PreCopy"
POST_COPY: Final = "PostCopy"
_SECONDS: Final = re.compile(r"(\d{1,7}(?:\.\d{1,3})?)s?")


@dataclass(frozen=True, slots=True)
class Copied:
    """All is there, so many seconds after the beginning."""

    after: float
    mode: str = PRE_COPY


@dataclass(frozen=True, slots=True)
class GivenUp:
    """So many seconds after the beginning; the instance stays where it is."""

    after: float
    reason: str


Copying = Copied | GivenUp | None  # None: it goes on until somebody ends it


def copying(text: str | None, *, usual: float, memory: int, settings: MigrationSettings) -> Copying:
    """`text` is what the annotation says, `usual` the seconds where it says nothing, or nothing that can be read."""
    needed = _needed(text, usual=usual, memory=memory, settings=settings)
    deadline = settings.deadline(memory)
    if needed is not None and (not deadline or needed <= deadline):
        return Copied(needed)
    stuck = settings.progress_timeout if needed is None else 0
    if deadline and (not stuck or deadline <= stuck):
        if settings.post_copy:
            return Copied(deadline, POST_COPY)
        return GivenUp(deadline, f"live migration is not completed after {deadline} seconds and has been aborted")
    return GivenUp(stuck, f"live migration made no progress for {stuck} seconds and has been aborted") if stuck else None


def _needed(text: str | None, *, usual: float, memory: int, settings: MigrationSettings) -> float | None:
    """None: it never ends by itself."""
    found = _SECONDS.fullmatch(text or "")
    takes = float(found[1]) if found else usual
    if text == NEVER:
        if not settings.auto_converge:
            return None
        takes = SLOWED * usual
    return max(takes, memory / settings.bandwidth) if settings.bandwidth else takes


def guest_memory(spec: Mapping[str, Any]) -> int:
    """The bytes that are copied: what the guest has. `spec` is that of an instance; 0 where it does not say."""
    domain = _part(spec, "domain")
    resources = _part(domain, "resources")
    for holder, field in ((_part(domain, "memory"), "guest"), (_part(resources, "requests"), "memory")):
        if (found := _amount(holder.get(field))) is not None:
            return found
    return _amount(_part(resources, "limits").get("memory")) or 0


def _amount(text: Any) -> int | None:
    try:
        return None if text is None else max(0, Quantity.parse(str(text)).value())
    except QuantityError:
        return None


def _part(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = holder.get(key)
    return found if isinstance(found, Mapping) else {}
