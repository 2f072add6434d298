"""In which order a group goes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.kube.objects import is_deleting
from ullage.policies.groups.api.contents import VolumeGroupSnapshotContent
from ullage.policies.groups.api.groups import VolumeGroupSnapshot
from ullage.policies.groups.model import (
    BEING_CREATED,
    BEING_DELETED,
    BY_MEMBERS,
    CUT_BY,
    handle_of,
    is_incomplete,
    keeps_data,
)
from ullage.snapshots.api.ga.types import VolumeSnapshot

_SHOWN: Final = 5  # names in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalFacts:
    """Of a group that is going. `content` is bound to it; `busy` are claims that are being filled from its members; `orphans`
    are VolumeSnapshots that the driver has cut with it, and that are to stay: it was deleted without them."""

    content: VolumeGroupSnapshotContent | None
    members: tuple[VolumeSnapshot, ...] = ()
    busy: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What to do, in this order."""

    busy: str = ""  # nothing, and why
    note_content: bool = False  # say on the content that its group is going
    mark: tuple[VolumeSnapshot, ...] = ()  # delete them; their finalizer keeps them, and nobody is given them any more
    keep: tuple[VolumeSnapshot, ...] = ()  # write on their records that the data stays
    alone: bool = False  # go on only where no other namespace uses what the driver has
    drop: tuple[VolumeSnapshot, ...] = ()
    delete_content: bool = False
    let_content_go: bool = False  # nobody who calls a driver has to
    let_group_go: bool = False


def plan_removal(facts: RemovalFacts) -> Removal:
    content = facts.content
    if facts.busy:
        return Removal(busy=f"Being filled from its members: claims {_shown(facts.busy)}. It goes as soon as that is done.")
    if content is None:
        return Removal(drop=facts.members, let_group_go=True)
    note = BEING_DELETED not in content.metadata.annotations
    if keeps_data(content):
        return Removal(note_content=note, keep=facts.members, drop=facts.members, let_group_go=True)
    delete = not is_deleting(content.metadata)
    if is_called_for(content) and facts.orphans:
        names = _shown(facts.orphans)
        return Removal(
            busy=f"It was deleted without VolumeSnapshots {names}, whose data its driver deletes with it. Delete these."
        )
    if is_called_for(content):
        standing = tuple(one for one in facts.members if not is_deleting(one.metadata))
        return Removal(note_content=note, mark=standing, alone=delete, delete_content=delete)
    # Each member was cut for itself, or nothing was: its own record has its data deleted.
    return Removal(note_content=note, drop=facts.members, delete_content=delete, let_content_go=True)


def _shown(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def is_called_for(content: VolumeGroupSnapshotContent) -> bool:
    """Whether the driver has to be called before the content may go."""
    if content.metadata.annotations.get(CUT_BY) == BY_MEMBERS:
        return False
    return bool(handle_of(content)) or BEING_CREATED in content.metadata.annotations


def is_abandoned(content: VolumeGroupSnapshotContent, group: VolumeGroupSnapshot | None) -> bool:
    """Whether the group that a content was made for is gone before it was complete: somebody took its finalizer off. What the
    driver has of it, or is about to make, nobody would pay for. What was complete is data, and stays."""
    uid = content.spec.volume_group_snapshot_ref.uid
    return bool(uid) and not (group is not None and group.metadata.uid == uid) and is_incomplete(content)
