"""How groups read, in tables and whole. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UnsetType

from ullage.cli.common.events import event_table
from ullage.cli.common.listing import Table
from ullage.cli.common.text import NONE, age, aligned, plain, size
from ullage.cli.snapshot.found import Found
from ullage.kube.builtin.events import Event
from ullage.kube.objects import is_deleting
from ullage.policies.groups.api import GROUPS, VolumeGroupSnapshot
from ullage.selectors import LabelSelector
from ullage.snapshots.metrics import state_of

_WIDTH: Final = 11
Line = tuple[str, str]


def state(group: VolumeGroupSnapshot) -> str:
    if is_deleting(group.metadata):
        return "deleting"
    if group.status.ready_to_use is True:
        return "ready"
    return "failed" if has_failed(group) else "waiting" if error_of(group) else "creating"


def has_failed(group: VolumeGroupSnapshot) -> bool:
    """Whether it is not tried again."""
    return "None of its snapshots is kept" in error_of(group)


def error_of(group: VolumeGroupSnapshot) -> str:
    error = group.status.error
    return "" if isinstance(error, UnsetType) else plain(error.message)


def layout(*, wide: bool = False, namespaces: bool = False) -> Table[VolumeGroupSnapshot]:
    def cells(one: VolumeGroupSnapshot, now: datetime) -> tuple[str, ...]:
        status = one.status
        cut = f"{age(status.creation_time, now)} ago" if status.creation_time else NONE
        row = (state(one), one.spec.volume_group_snapshot_class_name or NONE, cut, age(one.metadata.creation_timestamp, now))
        more = (status.bound_volume_group_snapshot_content_name or NONE, error_of(one) or NONE) if wide else ()
        where = (one.metadata.namespace,) if namespaces else ()
        return (*where, one.metadata.name, *row, *more)

    return Table(
        head=(
            *(("NAMESPACE",) if namespaces else ()),
            *("NAME", "STATE", "CLASS", "CUT", "AGE"),
            *(("CONTENT", "ERROR") if wide else ()),
        ),
        cells=cells,
        name=lambda one: f"{GROUPS.kind.lower()}.{GROUPS.group}/{one.metadata.name}",
        uid=lambda one: one.metadata.uid,
        body=lambda one: {"apiVersion": GROUPS.api_version, "kind": GROUPS.kind, **msgspec.to_builtins(one)},
        state="STATE",
        ages=("CUT", "AGE"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetails:
    """A group and what belongs to it."""

    group: VolumeGroupSnapshot
    members: Sequence[Found] = ()
    events: Sequence[Event] = ()


def described(known: GroupDetails, *, now: datetime) -> str:
    parts = ["\n".join(f"{f'{name}:':<{_WIDTH}}{text}" for name, text in _head(known, now))]
    if known.members:
        rows = [("CLAIM", "SNAPSHOT", "STATE", "SIZE")]
        rows += [
            (one.snapshot.claim or NONE, one.obj.metadata.name, state_of(one.snapshot), size(one.snapshot.state.restore_size))
            for one in known.members
        ]
        parts.append(aligned(rows))
    parts.append(event_table(known.events, now))
    return "\n\n".join(parts)


def _head(known: GroupDetails, now: datetime) -> Iterable[Line]:
    group, status = known.group, known.group.status
    yield "Name", group.metadata.name
    yield "Namespace", group.metadata.namespace
    yield "State", state(group)
    if error := error_of(group):
        yield "Why", error
    source = group.spec.source
    if isinstance(source.selector, UnsetType):
        yield "Content", f"{source.volume_group_snapshot_content_name} (was there already)"
    else:
        yield "Claims", str(LabelSelector.of(msgspec.to_builtins(source.selector))) or "all of the namespace"
    yield "Class", group.spec.volume_group_snapshot_class_name or "(the default)"
    yield "Cut", f"{status.creation_time} ({age(status.creation_time, now)} ago)" if status.creation_time else "not yet"
    yield "Members", str(len(known.members))
