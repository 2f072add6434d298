"""How the quota of a project reads in a terminal, and for programs. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from ullage.cli.common.listing import Table
from ullage.cli.common.project_quotas import (
    UNKNOWN,
    Limits,
    SeedPart,
    counted,
    of_limits,
    seed_parts,
    written_limits,
    written_usage,
)
from ullage.cli.common.text import NONE, age, aligned, free, plain
from ullage.cli.quota.project_setting import Outcome, Removed
from ullage.kube.objects import Json, find_condition, is_deleting
from ullage.ledger.amounts import Amounts, spell
from ullage.projects.api.quotas import WITHIN_QUOTA, ResourceQuota
from ullage.projects.escrow.progress import away_since, out_of_reach
from ullage.projects.escrow.terms import Escrow
from ullage.projects.names import RESOURCES, SETTING, is_default
from ullage.projects.quota import faults, limits_of, max_clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectQuota:
    """`quota` is None where the project has none, `escrow` where nobody has divided it."""

    project: str
    name: str = ""  # that people read
    quota: ResourceQuota | None = None
    escrow: Escrow | None = None
    notes: tuple[str, ...] = ()  # what has to be said beside it

    @property
    def limits(self) -> Limits:
        return limits_of(self.quota.spec.quota) if self.quota is not None else {}

    @property
    def used(self) -> Amounts | None:
        return counted(self.quota.status.global_usage) if self.quota is not None else None

    @property
    def parts(self) -> list[SeedPart]:
        return seed_parts(self.quota, self.escrow) if self.quota is not None else []


# --- one, whole ------------------------------------------------------------------------------------------------------


def no_quota(project: str) -> str:
    return f"project {project} has no quota: its machines are not limited"


def described(one: ProjectQuota, *, now: datetime) -> str:
    if one.quota is None:
        return no_quota(one.project)
    parts = one.parts
    said = [*_head(one, one.quota), "", _resources(one, one.quota)]
    said += ["", _seeds(parts, now=now), *_lowered(parts)] if parts else []
    return "\n".join([*said, *_conditions(one.quota, now=now)])


def _head(one: ProjectQuota, quota: ResourceQuota) -> Iterator[str]:
    yield f"Project:   {one.project}{f' ({plain(one.name)})' if one.name else ''}"
    kind = f"the default of KubermaticSetting {SETTING}" if is_default(quota.metadata) else "its own"
    going = f", being deleted: it goes when no seed has a copy{_waits(quota)}" if is_deleting(quota.metadata) else ""
    yield f"Quota:     {quota.metadata.name}, {kind}{going}"
    if (clusters := max_clusters(quota.metadata)) is not None:
        yield f"Clusters:  {clusters} at most"
    for fault in faults(quota):
        yield f"Wrong:     {plain(str(fault))}"


def _waits(quota: ResourceQuota) -> str:
    """For which seeds a quota waits that is being deleted, as its master last saw them."""
    away = away_since(quota)
    return f"; {out_of_reach(sorted(away), away)}" if away else ""


def _resources(one: ProjectQuota, quota: ResourceQuota) -> str:
    here, limits, used = counted(quota.status.local_usage), one.limits, one.used
    rows = [("RESOURCE", "LIMIT", "USED", "FREE", *(("USED HERE",) if here is not None else ()))]
    for resource in RESOURCES:
        limit = limits.get(resource)
        left = limit - used[resource] if limit is not None and used is not None else None
        allowed = "none" if limit is None else spell(resource, limit, down=True)
        taken = UNKNOWN if used is None else spell(resource, used[resource])
        local = (spell(resource, here[resource]),) if here is not None else ()
        rows.append((resource, allowed, taken, free(resource, left), *local))
    return aligned(rows)


def _seeds(parts: list[SeedPart], *, now: datetime) -> str:
    """What each seed uses of what it may have."""
    rows = [(one.seed, *of_limits(one.used, one.granted), age(one.stale_since, now)) for one in parts]
    return aligned([("SEED", "CPU", "MEMORY", "STORAGE", "STALE"), *rows])


def _lowered(parts: list[SeedPart]) -> Iterator[str]:
    """What is on its way back from seeds."""
    for one in parts:
        shares = one.share.parts if one.share is not None else {}
        for resource, part in shares.items():
            if part.settled:
                continue
            target = spell(resource, part.target, down=True)
            counts = "as unlimited" if part.granted is None else f"as {spell(resource, part.granted, down=True)}"
            yield f"seed {one.seed}: {resource} is to be {target}, and counts {counts} until the seed is known to keep to it"


def _conditions(quota: ResourceQuota, *, now: datetime) -> list[str]:
    rows = [
        (one.type, one.status, age(one.last_transition_time, now), one.reason or NONE, plain(one.message))
        for one in quota.status.conditions
    ]
    return ["", aligned([("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"), *rows])] if rows else []


# --- several, and for programs ---------------------------------------------------------------------------------------


def layout() -> Table[ProjectQuota]:
    def cells(one: ProjectQuota, now: datetime) -> tuple[str, ...]:
        limits = (NONE,) * len(RESOURCES) if one.quota is None else of_limits(one.used, one.limits)
        return one.project, *limits, _within(one.quota)

    return Table(
        head=("PROJECT", "CPU", "MEMORY", "STORAGE", "WITHIN"),
        cells=cells,
        name=lambda one: f"project/{one.project}",
        uid=lambda one: one.project,
        body=body,
        state="WITHIN",
    )


def _within(quota: ResourceQuota | None) -> str:
    found = find_condition(quota.status.conditions, WITHIN_QUOTA) if quota is not None else None
    return found.status if found is not None else NONE


def body(one: ProjectQuota) -> Json:
    """For programs: quantities, as Kubernetes writes them. What is not known is left out."""
    made: Json = {"project": one.project, "limits": written_limits(one.limits)}
    if one.quota is None:
        return made
    status = one.quota.status
    made |= {"quota": one.quota.metadata.name, "default": is_default(one.quota.metadata)}
    if one.used is not None:
        made["used"] = written_usage(one.used)
    if (here := counted(status.local_usage)) is not None:
        made["usedHere"] = written_usage(here)
    made["seeds"] = [_seed_body(part) for part in one.parts]
    made["conditions"] = [
        {"type": one.type, "status": one.status, "reason": one.reason, "message": one.message} for one in status.conditions
    ]
    return made


def _seed_body(part: SeedPart) -> Json:
    made: Json = {"name": part.seed}
    if part.used is not None:
        made["used"] = written_usage(part.used)
    if part.stale_since:
        made["staleSince"] = part.stale_since
    if part.share is not None and part.granted is not None:
        made["granted"] = written_limits(part.granted)
        made["limits"] = written_limits({resource: one.target for resource, one in part.share.parts.items()})
    return made


# --- what was done ---------------------------------------------------------------------------------------------------


def was_set(project: str, outcome: Outcome, *, dry_run: bool) -> Iterator[str]:
    """A line for each resource, as for namespaces, and what the author may not know."""
    was, is_now, follows = ("is", "would be", "would not") if dry_run else ("was", "is", "does not")
    limits = limits_of(outcome.quota.spec.quota) if outcome.quota is not None else {}
    for resource in RESOURCES:
        whose = f"{resource} of project {project} {is_now}"
        found = limits.get(resource)
        yield f"{whose} without a limit" if found is None else f"{whose} limited to {_limited_to(resource, limits)}"
    if outcome.was_default:
        yield (
            f"the quota of project {project} {was} the default one, and {is_now} its own: it {follows} follow KubermaticSetting"
            f" {SETTING} any more"
        )


def _limited_to(resource: str, limits: Limits) -> str:
    return spell(resource, limits[resource], down=True)


def no_project(project: str) -> str:
    return (
        f"there is no project {project} here: its quota holds when there is. Quotas are set on the master cluster. "
        "Next: kubectl get projects"
    )


def was_removed(project: str, removed: Removed, *, dry_run: bool) -> Iterator[str]:
    if removed.quota is None:
        yield f"project {project} has no quota: nothing to remove"
        return
    held = bool(removed.quota.metadata.finalizers)
    if dry_run:
        yield f"the quota of project {project} would be removed"
    elif held:
        yield f"the quota of project {project} is being removed: it goes when no seed has a copy of it any more"
        if waits := _waits(removed.quota):
            yield waits.removeprefix("; ")
    else:
        yield f"the quota of project {project} is removed"
    if removed.default is not None:
        limits = limits_of(removed.default)
        said = ", ".join(f"{one} {_limited_to(one, limits)}" for one in RESOURCES if one in limits)
        yield f"then the default of KubermaticSetting {SETTING} takes its place: {said}"
