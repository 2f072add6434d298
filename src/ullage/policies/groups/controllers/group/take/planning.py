"""What a group is of: the claims that its selector chooses now, and the class that it is taken with. Pure.

It is written into the content before anything is made, and is not looked up again: labels may change meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import UnsetType

from ullage.errors import BadInput
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json
from ullage.policies.groups.api.classes import VolumeGroupSnapshotClass
from ullage.policies.groups.api.contents import GROUP_CONTENTS
from ullage.policies.groups.api.groups import GROUPS, VolumeGroupSnapshot
from ullage.policies.groups.class_choice import choose_class, secret_for
from ullage.policies.groups.model import (
    BY_MEMBERS,
    CONTENT_FINALIZER,
    CUT_BY,
    MEMBERS,
    MOST_MEMBERS,
    SECRET_NAME,
    SECRET_NAMESPACE,
    content_name,
    write_members,
)
from ullage.selectors import LabelSelector, SelectorError
from ullage.snapshots.api.common import reference
from ullage.snapshots.model import Policy, Problem, Ref, Snapshot
from ullage.snapshots.source_volume import ClaimContext, SourceVolume, find_source_volume

_SHOWN: Final = 5  # names in a message

# Of a selector: each claim of the namespace is held against all of them, in a process that other tenants wait for.
MOST_TERMS: Final = 32
MOST_VALUES: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What is to be cut together, and how."""

    driver: str
    volumes: Mapping[str, str]  # handles, by claim
    class_name: str
    policy: Policy
    secret: Ref | None = None


def selector_of(group: VolumeGroupSnapshot) -> LabelSelector | Problem:
    found = group.spec.source.selector
    if isinstance(found, UnsetType):
        return Problem("NoSource", "spec.source: neither a selector nor a content is named")
    terms = len(found.match_labels) + len(found.match_expressions)
    values = sum(len(one.values) for one in found.match_expressions)
    if terms > MOST_TERMS or values > MOST_VALUES:
        return Problem(
            "SelectorTooLarge",
            f"spec.source.selector: it has {terms} labels and expressions with {values} values; "
            f"{MOST_TERMS} with {MOST_VALUES} values are the most. Give the claims a label of their own",
        )
    try:
        return LabelSelector.of(msgspec.to_builtins(found))
    except SelectorError as error:
        return Problem("SelectorInvalid", f"spec.source.selector: {error}")


def plan_of(
    group: VolumeGroupSnapshot,
    contexts: Mapping[str, ClaimContext],
    classes: Sequence[VolumeGroupSnapshotClass],
    *,
    chosen: int,
) -> GroupPlan | Problem:
    """Of the claims that the selector chooses, so many in all, or why there is none (yet). Whatever it is may be otherwise in a
    moment, so the group waits: nothing was made."""
    if not contexts:
        return Problem("NoClaims", "no claim of the namespace has the labels that spec.source.selector asks for")
    if chosen > MOST_MEMBERS:
        return Problem(
            "TooManyMembers",
            f"spec.source.selector: it chooses {chosen} claims; a group has {MOST_MEMBERS} at most. Choose fewer, and "
            "make several groups",
        )
    sources = _sources(group.metadata, contexts)
    if isinstance(sources, Problem):
        return sources
    driver = next(iter(sources.values())).driver
    found = choose_class(group.spec.volume_group_snapshot_class_name, driver, classes)
    if isinstance(found, Problem):
        return found
    try:
        secret = secret_for(found, group.metadata, content=content_name(group.metadata))
    except BadInput as error:
        return Problem("ClassInvalid", f"class {found.metadata.name}: {error}")
    volumes = {claim: source.volume.handle for claim, source in sources.items()}
    return GroupPlan(
        driver=driver, volumes=volumes, class_name=found.metadata.name, policy=found.deletion_policy, secret=secret
    )


def _sources(group: Meta, contexts: Mapping[str, ClaimContext]) -> dict[str, SourceVolume] | Problem:
    found: dict[str, SourceVolume] = {}
    for claim, context in sorted(contexts.items()):
        source = find_source_volume(Snapshot(meta=Meta(namespace=group.namespace), claim=claim), context)
        if isinstance(source, Problem):
            return source
        found[claim] = source
    drivers = sorted({one.driver for one in found.values()})
    if len(drivers) > 1:
        return Problem(
            "SeveralDrivers",
            f"the claims have volumes of {len(drivers)} drivers ({', '.join(drivers[:_SHOWN])}); a group is of one",
        )
    handles = [one.volume.handle for one in found.values()]
    if len(set(handles)) < len(handles):
        return Problem("VolumeShared", "two of the claims have the same volume; choose one of them")
    return found


def new_content(group: VolumeGroupSnapshot, plan: GroupPlan, *, by_driver: bool | None) -> Json:
    """`by_driver`: whether the driver cuts all in one call; None: whoever can ask it will say."""
    meta = group.metadata
    annotations = {MEMBERS: write_members(plan.volumes)}
    if by_driver is False:
        annotations[CUT_BY] = BY_MEMBERS
    if plan.secret is not None:
        annotations |= {SECRET_NAME: plan.secret.name, SECRET_NAMESPACE: plan.secret.namespace}
    return {
        "apiVersion": GROUP_CONTENTS.api_version,
        "kind": GROUP_CONTENTS.kind,
        "metadata": {"name": content_name(meta), "annotations": annotations, "finalizers": [CONTENT_FINALIZER]},
        "spec": {
            "volumeGroupSnapshotRef": reference(
                Ref(meta.namespace, meta.name, meta.uid), kind=GROUPS.kind, api_version=GROUPS.api_version
            ),
            "deletionPolicy": plan.policy,
            "driver": plan.driver,
            "volumeGroupSnapshotClassName": plan.class_name,
            "source": {"volumeHandles": [handle for _, handle in sorted(plan.volumes.items())]},
        },
    }
