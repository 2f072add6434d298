"""What `ullage snapshot group` asks of a cluster, once its options are understood."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from ullage.cli.common.events import events_of
from ullage.cli.common.listing import ChangingTable, Report, print_report
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.session import Missing, NotInstalled, Session
from ullage.cli.common.waiting import Failed, ProgressOutput, until
from ullage.cli.common.watching import followed
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.group import text
from ullage.cli.snapshot.group.choosing import (
    LABEL_PREFIX,
    MEMBER,
    STATEFUL_SET,
    GroupChoice,
    chosen_claims,
    label_of,
    put_labels,
    selector_of,
)
from ullage.clock import SystemClock
from ullage.kube.cache.reflector import Selection
from ullage.kube.errors import NotFound
from ullage.kube.objects import Json
from ullage.policies.groups.api import GROUPS, VolumeGroupSnapshot
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.ga.types import VOLUME_SNAPSHOTS
from ullage.snapshots.model import group_of


async def create(
    session: Session, name: str, choice: GroupChoice, *, class_name: str, dry_run: bool
) -> tuple[VolumeGroupSnapshot, list[str]]:
    """The group, and the claims that got its label; none where a selector was given."""
    selector, named = selector_of(choice.selector), list[str]()
    await _served(session)
    if not choice.selector:
        label = label_of(name)
        claims = await chosen_claims(session, choice)
        if await session.client.find(GROUPS, name, session.namespace) is not None:
            raise Failed(f"group {name} exists already in namespace {session.namespace}; nothing was changed")
        await put_labels(session, label, claims, dry_run=dry_run)
        selector, named = {"matchLabels": {label: MEMBER}}, [one.metadata.name for one in claims]
    notes = {STATEFUL_SET: choice.stateful_set} if choice.stateful_set else {}
    spec: Json = {"source": {"selector": selector}}
    if class_name:
        spec["volumeGroupSnapshotClassName"] = class_name
    body = {"metadata": {"name": name, "namespace": session.namespace, "annotations": notes}, "spec": spec}
    made = await session.client.create(GROUPS, msgspec.convert(body, VolumeGroupSnapshot), dry_run=dry_run)
    return made, named


async def _served(session: Session) -> None:
    try:
        await session.client.list(GROUPS, session.namespace)
    except NotFound as error:
        raise _not_installed(error) from error


def _not_installed(error: NotFound) -> NotInstalled:
    return NotInstalled(f"the cluster has no VolumeGroupSnapshots ({error.message}). Next: ullage install")


async def found(session: Session, name: str) -> VolumeGroupSnapshot:
    try:
        one = await session.client.find(GROUPS, name, session.namespace)
    except NotFound as error:
        raise _not_installed(error) from error
    if one is None:
        raise Missing(f"there is no group {name} in namespace {session.namespace}; list them: ullage snapshot group list")
    return one


async def members_of(session: Session, group: VolumeGroupSnapshot) -> list[Found]:
    """By claim. Of a group that was there already, those that say so."""
    name, uid = group.metadata.name, group.metadata.uid
    listed = (await session.client.list(VOLUME_SNAPSHOTS, session.namespace)).items
    mine = [
        one
        for one in listed
        if (group_of(one.metadata) == name and any(owner.uid == uid for owner in one.metadata.owner_references))
        or one.status.volume_group_snapshot_name == name
    ]
    return sorted((Found(GA, one) for one in mine), key=lambda one: (one.snapshot.claim, one.obj.metadata.name))


async def describe(session: Session, name: str) -> text.GroupDetails:
    group = await found(session, name)
    members = await members_of(session, group)
    return text.GroupDetails(group=group, members=members, events=await events_of(session.client, group))


async def delete(session: Session, names: Sequence[str], *, dry_run: bool) -> list[VolumeGroupSnapshot]:
    """All are looked up before the first is deleted. The labels that were put on claims for them go too."""
    wanted = [await found(session, name) for name in names]
    for one in wanted:
        meta = one.metadata
        await session.client.delete(GROUPS, meta.name, session.namespace, uid=meta.uid, dry_run=dry_run)
        labels = getattr(one.spec.source.selector, "match_labels", {}) or {}
        if f"{LABEL_PREFIX}{meta.name}" in labels:
            await put_labels(session, f"{LABEL_PREFIX}{meta.name}", [], dry_run=dry_run)
    return wanted


async def wait(session: Session, group: VolumeGroupSnapshot, *, gone: bool, timeout: float) -> VolumeGroupSnapshot:
    """Until it is ready, or gone. Ends where it has failed for good."""
    meta, output, last = group.metadata, ProgressOutput(), [group]

    async def look() -> VolumeGroupSnapshot | None:
        now = await session.client.find(GROUPS, meta.name, meta.namespace)
        if now is None or now.metadata.uid != meta.uid:
            if gone:
                return group
            raise Missing(f"group {meta.name} was deleted before it was ready")
        last[0] = now
        if not gone and text.has_failed(now):
            raise Failed(f"group {meta.name} has failed: {text.error_of(now)}")
        return now if not gone and now.status.ready_to_use is True else None

    def late() -> str:
        why = text.error_of(last[0])
        goal = "gone" if gone else "ready"
        return f"group {meta.name} is not {goal} within {timeout:g} s{f': {why}' if why else ''}; nothing was stopped"

    with output.spinning(f"group {meta.name} is waited for"):
        return await until(look, timeout=timeout, late=late)


# --- lists -----------------------------------------------------------------------------------------------------------


async def show(session: Session, names: Sequence[str], output: OutputFormat, *, labels: str, everywhere: bool) -> None:
    report = Report(
        rows=await _listed(session, names, labels=labels, everywhere=everywhere),
        table=text.layout(wide=output.is_wide, namespaces=everywhere),
        nothing="there are no groups in any namespace" if everywhere else f"there are no groups in {session.namespace}",
        single=len(names) == 1,
    )
    print_report(report, output, now=SystemClock().now())


async def watch(session: Session, names: Sequence[str], output: OutputFormat, *, labels: str, everywhere: bool) -> None:
    """Until it is interrupted."""
    await _listed(session, names, labels=labels, everywhere=everywhere)  # what is wrong is said at once
    clock, table = SystemClock(), text.layout(wide=output.is_wide, namespaces=everywhere)
    shown: ChangingTable[VolumeGroupSnapshot] = ChangingTable(table, output, write=partial(print, flush=True))
    chosen: Selection[Any] = Selection(GROUPS, "" if everywhere else session.namespace, labels)
    async with followed(session.client, [chosen]) as follow:
        shown.begin([one.obj for one in follow.there if not names or one.obj.metadata.name in names], clock.now())
        async for change in follow.changes():
            if not names or change.obj.metadata.name in names:
                shown.change(change.obj, clock.now(), gone=change.gone)


async def _listed(session: Session, names: Sequence[str], *, labels: str, everywhere: bool) -> list[VolumeGroupSnapshot]:
    if names:
        return [await found(session, name) for name in names]
    try:
        items = (await session.client.list(GROUPS, "" if everywhere else session.namespace, labels=labels)).items
    except NotFound as error:
        raise _not_installed(error) from error
    return sorted(items, key=lambda one: (one.metadata.namespace, one.metadata.name))
