"""What a seed's copy of a quota is to be, and in which order the copies and the quota go. Pure.

The master's word counts for labels, spec, `globalUsage` and whether that is of now; `localUsage` is the seed's own and never
written from here. A master may be a seed itself: then both are one object, which is no copy, is not written and above all not
waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from ullage.kube.kinds import Meta
from ullage.kube.objects import Conditions, Json, find_condition, is_deleting, merge_patch, without_finalizer
from ullage.projects.api.quotas import USAGE_FRESH, ResourceQuota, ResourceQuotaStatus
from ullage.projects.escrow.progress import away_since, handing_over, out_of_reach
from ullage.projects.escrow.record import has_any_record
from ullage.projects.names import COPY_OF, DEFAULT_MARKS, FINALIZER, MAX_CLUSTERS, SUBJECT_KIND, SUBJECT_NAME
from ullage.projects.quota import is_counted, same_limits, with_limits

NAMED: Final = 5  # seeds that a message spells out
# What follows the master in both directions; other labels on a copy are somebody else's.
_OURS: Final = (*DEFAULT_MARKS, SUBJECT_NAME, SUBJECT_KIND)


def is_copy(found: ResourceQuota, master: ResourceQuota) -> bool:
    return found.metadata.uid != master.metadata.uid


# --- kept alike ------------------------------------------------------------------------------------------------------


def may_copy(master: ResourceQuota) -> bool:
    """Only what is held can be copied: without the finalizer the quota could go, and the copies would stay."""
    return FINALIZER in master.metadata.finalizers and not is_deleting(master.metadata)


def new_copy(master: ResourceQuota) -> ResourceQuota:
    """Neither owners nor finalizers come along: what they name is on the master."""
    meta = master.metadata
    made = Meta(name=meta.name, labels=dict(meta.labels), annotations=_annotations({COPY_OF: meta.uid}, meta))
    return ResourceQuota(metadata=made, spec=master.spec)


def object_patch(master: ResourceQuota, copy: ResourceQuota) -> Json | None:
    """What makes a copy's labels and spec the master's; None: nothing is to be done. One that is being deleted is made anew
    when it is gone, and so is one with another subject, which cannot be changed."""
    if not is_copy(copy, master) or is_deleting(copy.metadata) or must_go(master, copy):
        return None
    meta = msgspec.structs.replace(
        copy.metadata,
        labels=_labels(copy.metadata, master.metadata),
        annotations=_annotations(copy.metadata.annotations, master.metadata),
    )
    spec = msgspec.structs.replace(copy.spec, quota=with_limits(copy.spec.quota, master.spec.quota))
    return merge_patch(copy, msgspec.structs.replace(copy, metadata=meta, spec=spec))


def must_go(master: ResourceQuota, copy: ResourceQuota) -> bool:
    """Whether what is there under the name of the copy is about somebody else."""
    return is_copy(copy, master) and copy.spec.subject != master.spec.subject


def status_patch(master: ResourceQuota, copy: ResourceQuota) -> Json | None:
    """What makes a copy say what the project uses on all seeds; None: it does."""
    if not is_copy(copy, master) or not is_counted(master.status.global_usage):
        return None
    old, said = copy.status, master.status
    usage = old.global_usage if same_limits(old.global_usage, said.global_usage) else said.global_usage
    conditions = _with_freshness(old.conditions, said, generation=copy.metadata.generation)
    new: ResourceQuotaStatus = msgspec.structs.replace(old, global_usage=usage, shown=said.shown, conditions=conditions)
    return merge_patch({"status": msgspec.to_builtins(old)}, {"status": msgspec.to_builtins(new)})


def _with_freshness(conditions: Conditions, master: ResourceQuotaStatus, *, generation: int) -> Conditions:
    """Whether `globalUsage` is of now goes with it. The age of figures is not said here, or every copy would be written at
    every step of it: since when they are old is."""
    said = find_condition(master.conditions, USAGE_FRESH)
    if said is None:
        return conditions
    stale = [f"{seed.name} since {seed.stale_since}" for seed in master.seeds if seed.stale_since]
    message = f"out of reach: {_few(stale)}; the last figures count" if stale else said.message
    new = msgspec.structs.replace(said, message=message, observed_generation=generation)
    if find_condition(conditions, USAGE_FRESH) is None:
        return (*conditions, new)
    return tuple(new if one.type == USAGE_FRESH else one for one in conditions)


def _labels(copy: Meta, master: Meta) -> dict[str, str]:
    kept = {name: value for name, value in copy.labels.items() if name not in _OURS}
    return {**kept, **master.labels}


def _annotations(copy: Mapping[str, str], master: Meta) -> dict[str, str]:
    kept = {name: value for name, value in copy.items() if name != MAX_CLUSTERS}
    if COPY_OF in kept:  # it may have been made for a quota that was there before
        kept[COPY_OF] = master.uid
    said = master.annotations.get(MAX_CLUSTERS)
    return kept if said is None else {**kept, MAX_CLUSTERS: said}


def is_orphan(copy: ResourceQuota | None) -> bool:
    """Whether this is a copy that we made, where the master has no quota of its name: whoever made it was killed before he saw
    that the quota was gone. One that others have made is theirs."""
    return copy is not None and COPY_OF in copy.metadata.annotations and not is_deleting(copy.metadata)


# --- taken away ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SeedCopy:
    """What is seen of a quota on a seed; where the seed is out of reach nobody knows whether there is a copy."""

    seed: str
    reachable: bool
    copy: ResourceQuota | None = None
    given_up: bool = False  # a person has said that the seed is gone for good


@dataclass(frozen=True, slots=True)
class Removal:
    """What is next when a quota is deleted: these copies, and when there is none any more, the finalizer. Before that, while
    there is a record of what the seeds may have, they are told what holds after it, which is not done here."""

    delete: tuple[tuple[str, ResourceQuota], ...] = ()  # by seed
    metadata: Meta | None = None  # what the quota is to have: without the finalizer
    waiting: str = ""  # for what, in a sentence


def removal(master: ResourceQuota, copies: Iterable[SeedCopy], heir: ResourceQuota | None = None) -> Removal:
    """Each step may be repeated, and whoever is killed after any of them goes on with the next. Where another quota takes the
    place of this one the copies stay for it: nothing is to keep that waiting once the seeds know its limits."""
    if not is_deleting(master.metadata) or FINALIZER not in master.metadata.finalizers:
        return Removal()
    delete: list[tuple[str, ResourceQuota]] = []
    going: list[str] = []
    unknown: list[str] = []
    for one in sorted(copies, key=lambda seen: seen.seed):
        if not one.reachable and one.given_up:
            continue  # should it come back, its copy is one without a quota, and goes then
        if not one.reachable:
            unknown.append(one.seed)
        elif one.copy is not None and is_copy(one.copy, master):
            going.append(one.seed)
            if not is_deleting(one.copy.metadata):
                delete.append((one.seed, one.copy))
    if has_any_record(master.metadata):
        return Removal(waiting=_waiting([], unknown, away_since(master), first=handing_over(master, heir)))
    if heir is not None or (not going and not unknown):
        return Removal(metadata=without_finalizer(master.metadata, FINALIZER))
    return Removal(tuple(delete), None, _waiting(going, unknown, away_since(master)))


def _waiting(going: list[str], unknown: list[str], since: Mapping[str, str], first: str = "") -> str:
    said = [first] if first else []
    if going:
        said.append(f"there is still a copy on {_few(going)}")
    if unknown:
        said.append(out_of_reach(unknown, since))
    return "; ".join(said)


def _few(seeds: list[str]) -> str:
    more = f" and {len(seeds) - NAMED} more" if len(seeds) > NAMED else ""
    return f"{', '.join(seeds[:NAMED])}{more}"
