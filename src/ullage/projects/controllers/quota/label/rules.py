"""The labels that a quota is found by, and the owner reference that has it go with its project. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from ullage.kube.kinds import Meta, OwnerReference
from ullage.kube.objects import is_deleting, owner_reference
from ullage.projects.api.kkp import PROJECTS, Project
from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.names import SUBJECT_KIND, SUBJECT_NAME, bad_project_id, is_project_id

PROJECT_MISSING: Final = "ProjectMissing"
BAD_SUBJECT: Final = "BadSubject"


def marked(quota: ResourceQuota, project: Project | None) -> Meta:
    """The metadata that a quota is to have; the very same value where nothing is missing. `project` is its subject."""
    meta = quota.metadata
    if is_deleting(meta) or not is_project_id(quota.spec.subject.name):
        return meta  # the API server would refuse such a label, again and again
    subject = quota.spec.subject
    labels = {**meta.labels, SUBJECT_NAME: subject.name, SUBJECT_KIND: subject.kind}
    owners = meta.owner_references if project is None else _owned_by(meta.owner_references, project)
    if labels == dict(meta.labels) and owners == meta.owner_references:
        return meta
    return msgspec.structs.replace(meta, labels=labels, owner_references=owners)


def _owned_by(owners: tuple[OwnerReference, ...], project: Project) -> tuple[OwnerReference, ...]:
    """Other owners stay. A project of the name that was there before does not: the garbage collector would take the quota away
    on its account."""
    wanted = owner_reference(PROJECTS, project.metadata)
    ours = [one for one in owners if _is_project(one)]
    if len(ours) == 1 and ours[0].uid == wanted.uid and ours[0].name == wanted.name:
        return owners
    return (*(one for one in owners if not _is_project(one)), wanted)


def _is_project(owner: OwnerReference) -> bool:
    return owner.kind == PROJECTS.kind and owner.api_version.partition("/")[0] == PROJECTS.group


def problem(quota: ResourceQuota, project: Project | None) -> tuple[str, str]:
    """Why a quota limits nobody, as a reason and a sentence; empty where it does."""
    subject = quota.spec.subject
    if is_deleting(quota.metadata):
        return "", ""
    if not is_project_id(subject.name):
        return BAD_SUBJECT, f"spec.subject.name: {bad_project_id(subject.name)}"
    if project is None:
        return PROJECT_MISSING, (
            f"spec.subject.name: there is no project {subject.name}; the quota holds when there is. Next: kubectl get projects"
        )
    return "", ""
