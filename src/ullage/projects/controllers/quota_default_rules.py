"""The default quota of projects: made where there is none, kept like the setting, taken away with it. Pure.

A quota follows the setting as long as it has both marks of a default. Any other belongs to whoever wrote it: it is never
touched, and the default comes back when it is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ullage.kube.kinds import Meta
from ullage.kube.objects import is_deleting, owner_reference
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import PROJECTS, KubermaticSetting, Project
from ullage.projects.api.quotas import ResourceQuota, ResourceQuotaSpec, Subject
from ullage.projects.names import DEFAULT_MARKS, PROJECT, SUBJECT_KIND, SUBJECT_NAME, is_default, quota_name
from ullage.projects.quota import QuotaFault, amount_faults, closed, limits_of, same_limits, with_limits

DEFAULT_FIELD: Final = "spec.defaultQuota.quota"


@dataclass(frozen=True, slots=True)
class Default:
    """What the setting says. `limits` is None where there is to be no default."""

    limits: ResourceDetails | None


@dataclass(frozen=True, slots=True)
class CreateDefault:
    """The project has no quota, and is to have the default one."""

    quota: ResourceQuota


@dataclass(frozen=True, slots=True)
class UpdateDefault:
    """The default one allows something else now."""

    quota: ResourceQuota
    spec: ResourceQuotaSpec


@dataclass(frozen=True, slots=True)
class RemoveDefault:
    """There is no default any more, or the project has a quota of its own beside it."""

    quota: ResourceQuota


Step = CreateDefault | UpdateDefault | RemoveDefault


# --- what the setting says -------------------------------------------------------------------------------------------


def default_in(setting: KubermaticSetting | None) -> Default | None:
    """None: nobody can tell what is wanted, and nothing is done. So a slip in the setting, or a setting that is gone, lifts no
    limit; only one that says so does."""
    if setting is None or is_deleting(setting.metadata) or setting_faults(setting):
        return None
    found = setting.spec.default_quota
    return Default(None if found is None or is_empty(found.quota) else found.quota)


def limits_by_default(setting: KubermaticSetting | None, project: Project | None) -> ResourceDetails | None:
    """What a project may use that has no quota: nothing is said where there is no default, and of a project that goes. None:
    nobody can tell, since what the setting says cannot be read."""
    if setting is None or project is None or is_deleting(project.metadata):
        return ResourceDetails()
    found = default_in(setting)
    return None if found is None else found.limits or ResourceDetails()


def closed_default(setting: KubermaticSetting | None) -> Default | None:
    """What a project without a quota gets while an amount of the setting is faulty: 0 in its place, so that a slip limits new
    projects too much rather than not at all. It follows the setting once that is corrected. None: there is no fault."""
    if setting is None or is_deleting(setting.metadata) or setting.spec.default_quota is None or not setting_faults(setting):
        return None
    return Default(closed(setting.spec.default_quota.quota))


def setting_faults(setting: KubermaticSetting) -> list[QuotaFault]:
    found = setting.spec.default_quota
    return [] if found is None else list(amount_faults(found.quota, field=DEFAULT_FIELD))


def is_empty(limits: ResourceDetails) -> bool:
    """Whether a default is none, as KKP has it: all of it absent or 0. In a quota 0 allows nothing; a default that allows
    nothing to anybody is none."""
    return not any(limit.nanos for limit in limits_of(limits).values())


# --- what is to be done ----------------------------------------------------------------------------------------------


def steps(default: Default, projects: Iterable[Project], quotas: Iterable[ResourceQuota]) -> Iterator[Step]:
    """For all projects, in one pass over them and their quotas."""
    by_subject: dict[str, list[ResourceQuota]] = defaultdict(list)
    for quota in quotas:
        by_subject[quota.spec.subject.name].append(quota)
    for project in projects:
        yield from steps_for(default, project, by_subject.get(project.metadata.name, ()))


def steps_for(default: Default, project: Project, quotas: Sequence[ResourceQuota]) -> Iterator[Step]:
    """`quotas` are all those whose subject is this project."""
    if is_deleting(project.metadata):
        return  # its quota goes with it
    ours = [quota for quota in quotas if is_default(quota.metadata)]
    there = [quota for quota in ours if not is_deleting(quota.metadata)]
    if default.limits is None or len(ours) < len(quotas):
        yield from map(RemoveDefault, there)
    elif not quotas:
        yield CreateDefault(new_default(project, default.limits))
    else:
        # One that is being deleted still has the name: the default comes back when it is gone.
        wanted = quota_name(project.metadata.name)
        for number, quota in enumerate(sorted(there, key=lambda one: (one.metadata.name != wanted, one.metadata.name))):
            if number:
                yield RemoveDefault(quota)  # one is enough, and it is the one with the right name if there is one
            elif not same_limits(quota.spec.quota, default.limits):
                limits = with_limits(quota.spec.quota, default.limits)
                yield UpdateDefault(quota, msgspec.structs.replace(quota.spec, quota=limits))


def new_default(project: Project, limits: ResourceDetails) -> ResourceQuota:
    """Marked and owned from the beginning: whoever is killed after that leaves nothing that stays without its project."""
    name = project.metadata.name
    labels = {SUBJECT_NAME: name, SUBJECT_KIND: PROJECT, **dict.fromkeys(DEFAULT_MARKS, "true")}
    owner = owner_reference(PROJECTS, project.metadata)
    return ResourceQuota(
        metadata=Meta(name=quota_name(name), labels=labels, owner_references=(owner,)),
        spec=ResourceQuotaSpec(subject=Subject(name=name), quota=limits),
    )
