"""What the status of a Cluster says that its machines take. Pure.

The peer gives up on the whole sum where one machine cannot be sized, and shows old figures. Here the others count, and the one
is named.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ullage.ledger.amounts import Amounts
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.quota import is_counted, same_limits, usage_of

NAMED: Final = 5  # machines that a message spells out


@dataclass(frozen=True, slots=True)
class ClusterUsage:
    """`usage` is what the status is to say; `message` tells of machines that are not in it, empty: all of them are."""

    usage: ResourceDetails
    message: str = ""


def cluster_usage(
    machines: Amounts, *, vanished: Amounts, unsized: Collection[str], before: ResourceDetails | None
) -> ClusterUsage:
    """`machines` is what those take that are there, being deleted or not; `vanished` what those count whose objects are gone
    while their servers may run; `unsized` names those that nobody knows the size of. Nothing is 0, and not absent; an amount
    that has not changed stays as it is written in `before`."""
    usage = usage_of(machines + vanished)
    if before is not None and is_counted(before) and same_limits(before, usage):
        usage = before
    return ClusterUsage(usage, _missing(sorted(unsized)))


def _missing(names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    whose = "the size of this machine is" if len(names) == 1 else "the sizes of these machines are"
    return f"{whose} not known, and not in the sum: {', '.join(names[:NAMED])}{more}"
