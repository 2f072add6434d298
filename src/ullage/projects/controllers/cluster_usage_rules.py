"""What the status of a Cluster says that its machines take. Pure.

Where a machine cannot be counted the sum would be too small, and nobody knows by how much. So what was said before stays, as
with the peer; unlike there, it is said which machines these are, and for what reason. That the figures are not of now is
written into the cluster's record: the Cluster is KKP's, and its definition drops what it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ullage.kube.objects import Conditions, find_condition, set_condition
from ullage.ledger.amounts import Amounts
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import Cluster
from ullage.projects.api.records import CLUSTER_USAGE_FRESH, MachineRecord
from ullage.projects.clusters import project_of
from ullage.projects.names import is_project_id
from ullage.projects.quota import is_counted, same_limits, usage_of
from ullage.projects.records import MACHINES_NOT_COUNTED, MACHINES_NOT_READ

NAMED: Final = 5  # machines that a message spells out


@dataclass(frozen=True, slots=True)
class ClusterUsage:
    """`usage` is what the status is to say, None: nothing yet; `problem` tells why that is not what is used now, empty: it
    is. `reason` is the same in one word."""

    usage: ResourceDetails | None
    problem: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stale:
    """Why figures are not of now, and since when."""

    reason: str
    message: str
    since: datetime


def is_charged(cluster: Cluster) -> bool:
    """Whether its machines count for a project: only such clusters are followed, and those that somebody else runs
    are not."""
    return is_project_id(project_of(cluster))


def cluster_usage(
    machines: Amounts, *, vanished: Amounts, uncounted: Mapping[str, str], before: ResourceDetails | None
) -> ClusterUsage:
    """`machines` is what those take that are there, being deleted or not; `vanished` what those count whose objects are gone
    while their servers may run; `uncounted` has the machines that cannot be counted, each with the reason. Nothing is 0, and
    not absent; an amount that has not changed stays as it is written in `before`."""
    if uncounted:
        return ClusterUsage(before, _missing(uncounted), MACHINES_NOT_COUNTED)
    usage = usage_of(machines + vanished)
    return ClusterUsage(before if before is not None and is_counted(before) and same_limits(before, usage) else usage)


def unreachable(error: str, before: ResourceDetails | None) -> ClusterUsage:
    """Nobody knows what is there now."""
    return ClusterUsage(before, f"its machines cannot be read, and the usage is that of before: {error}", MACHINES_NOT_READ)


def record_conditions(record: MachineRecord, stale: Stale | None, *, now: datetime) -> Conditions:
    """With what is said about the figures; the very same value where nothing is new, as of a cluster that was always well."""
    before = record.status.conditions
    if stale is None and find_condition(before, CLUSTER_USAGE_FRESH) is None:
        return before
    return set_condition(
        before,
        CLUSTER_USAGE_FRESH,
        status=stale is None,
        reason=stale.reason if stale is not None else "Fresh",
        message=stale.message if stale is not None else "what its machines take is of now",
        generation=record.metadata.generation,
        now=stale.since if stale is not None else now,
    )


def not_read(error: str) -> str:
    """Where Machines are counted, and their sets and deployments are not those of now."""
    return (
        f"its machines are counted, and not all else is read there: {error}. Replacements (--surge) and what"
        " MachineDeployments are told go by what was read before"
    )


def _missing(uncounted: Mapping[str, str]) -> str:
    names = sorted(uncounted)
    more = f"; and {len(names) - NAMED} more" if len(names) > NAMED else ""
    whose = "this machine cannot be counted" if len(names) == 1 else "these machines cannot be counted"
    return f"{whose}, and the usage is that of before: {'; '.join(f'{one}: {uncounted[one]}' for one in names[:NAMED])}{more}"
