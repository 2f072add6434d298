"""What is said of a cluster that a project may not have. Pure.

The number is an annotation on the quota, which only administrators write, and which a definition of the kind that is not ours
does not drop. Whether there is room is decided by the ledger (`cluster_count`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.names import MAX_CLUSTERS
from ullage.projects.quota import MAX_CLUSTERS_FIELD, faults, max_clusters

STEP: Final = "delete a cluster of the project, or have an administrator raise the number"
NEXT: Final = f"Next: {STEP}"
NEXT_OF_PART: Final = f"Next: try again in a minute, since room may come from there, or {STEP}"


def refusal(project: str, *, here: int, allowed: int, quotas: Iterable[ResourceQuota]) -> str:
    """`here` is how many clusters count on this seed, those that are being made or deleted among them, and `allowed` how many
    may, as the ledger has it: all that the project may have, or this seed's part of that."""
    quotas = list(quotas)
    said = [(limit, quota.metadata.name) for quota in quotas if (limit := max_clusters(quota.metadata)) is not None]
    if wrong := [fault for quota in quotas for fault in faults(quota) if fault.field == MAX_CLUSTERS_FIELD]:
        return (
            f"project {project} has {_clusters(here)} on this seed, and gets no more until its quota is corrected: {wrong[0]}."
            " Next: have an administrator correct it"
        )
    if not said:  # it was just taken off
        return f"project {project} has {_clusters(here)} on this seed, and may have {allowed} there. {NEXT}"
    limit, name = min(said)
    where = f"ResourceQuota {name}, annotation {MAX_CLUSTERS}"
    if limit == allowed:
        return f"project {project} has {_clusters(here)}, and may have {limit} ({where}). {NEXT}"
    part = f"{_clusters(here)} on this seed, which may have {allowed} of them now"
    return (
        f"project {project} may have {_clusters(limit)} in all ({where}), and has {part}: the rest is granted to other seeds."
        f" {NEXT_OF_PART}"
    )


def _clusters(count: int) -> str:
    return "1 cluster" if count == 1 else f"{count} clusters"
