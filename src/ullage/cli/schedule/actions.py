"""What `ullage schedule` asks of a cluster, once its options are understood."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from ullage.cli.common.events import events_of
from ullage.cli.common.listing import ChangingTable, Report, print_report
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.session import Missing, NotInstalled, Session, readable
from ullage.cli.common.watching import followed
from ullage.cli.schedule import text
from ullage.clock import SystemClock
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.cache.reflector import Selection
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.objects import Json
from ullage.policies.schedules.api import SCHEDULES, SnapshotSchedule
from ullage.policies.schedules.lookup import DIALECTS
from ullage.policies.schedules.model import GROUP_LABEL, RUN_NOW, group_of, read_scheduled
from ullage.selectors import LabelSelector
from ullage.snapshots.model import Snapshot
from ullage.times import timestamp


async def create(session: Session, name: str, spec: Json, *, dry_run: bool) -> SnapshotSchedule:
    body = {"metadata": {"name": name, "namespace": session.namespace}, "spec": spec}
    try:
        return await session.client.create(SCHEDULES, msgspec.convert(body, SnapshotSchedule), dry_run=dry_run)
    except NotFound as error:
        if error.names("", "namespaces", session.namespace):
            raise
        raise _not_installed(error) from error


async def found(session: Session, name: str) -> SnapshotSchedule:
    try:
        one = await session.client.find(SCHEDULES, name, session.namespace)
    except NotFound as error:
        raise _not_installed(error) from error
    if one is None:
        raise Missing(f"there is no schedule {name} in namespace {session.namespace}; list them: ullage schedule list")
    return one


def _not_installed(error: NotFound) -> NotInstalled:
    return NotInstalled(f"the cluster has no SnapshotSchedules ({error.message}). Next: ullage install")


async def edit(session: Session, name: str, merge: Json, *, dry_run: bool) -> SnapshotSchedule:
    one = await found(session, name)
    return await session.client.patch(SCHEDULES, name, session.namespace, merge=merge, uid=one.metadata.uid, dry_run=dry_run)


async def run_now(session: Session, name: str, *, now: datetime, dry_run: bool) -> str:
    """The time of the request; the run is for it."""
    time = timestamp(now)
    await edit(session, name, {"metadata": {"annotations": {RUN_NOW: time}}}, dry_run=dry_run)
    return time


async def delete(session: Session, names: Sequence[str], *, dry_run: bool) -> list[tuple[SnapshotSchedule, int]]:
    """Each with the number of snapshots that stay."""
    wanted = [await found(session, name) for name in names]
    gone = []
    for one in wanted:
        kept = await _snapshots(session, one)
        await session.client.delete(SCHEDULES, one.metadata.name, session.namespace, uid=one.metadata.uid, dry_run=dry_run)
        gone.append((one, len(kept)))
    return gone


async def describe(session: Session, name: str) -> text.ScheduleDetails:
    one = await found(session, name)
    selector = LabelSelector.of(msgspec.to_builtins(one.spec.claim_selector))
    claims = await readable(session.client.list(CLAIMS, session.namespace))
    listed = [] if isinstance(claims, Forbidden) else claims.items
    snapshots = sorted(await _snapshots(session, one), key=lambda found: found.meta.creation_timestamp, reverse=True)
    return text.ScheduleDetails(
        schedule=one,
        claims=sum(selector.matches(claim.metadata.labels) for claim in listed),
        snapshots=snapshots,
        events=await events_of(session.client, one),
    )


async def _snapshots(session: Session, schedule: SnapshotSchedule) -> list[Snapshot]:
    """Those of its group that schedules made, of both APIs. Where they may not be read, or are not served, there are none."""
    labels, read = f"{GROUP_LABEL}={group_of(schedule)}", []
    for dialect in DIALECTS.values():
        try:
            listed = await session.client.list(dialect.snapshots, session.namespace, labels=labels)
        except (Forbidden, NotFound):
            continue
        found = map(dialect.read_snapshot, listed.items)
        read += [one for one in found if read_scheduled(one, dialect.name) is not None]
    return read


# --- lists -----------------------------------------------------------------------------------------------------------


async def show(session: Session, names: Sequence[str], output: OutputFormat, *, labels: str, everywhere: bool) -> None:
    report = Report(
        rows=await _listed(session, names, labels=labels, everywhere=everywhere),
        table=text.layout(wide=output.is_wide, namespaces=everywhere),
        nothing="there are no schedules in any namespace" if everywhere else f"there are no schedules in {session.namespace}",
        single=len(names) == 1,
    )
    print_report(report, output, now=SystemClock().now())


async def watch(session: Session, names: Sequence[str], output: OutputFormat, *, labels: str, everywhere: bool) -> None:
    """Until it is interrupted."""
    await _listed(session, names, labels=labels, everywhere=everywhere)  # what is wrong is said at once
    clock, table = SystemClock(), text.layout(wide=output.is_wide, namespaces=everywhere)
    shown: ChangingTable[SnapshotSchedule] = ChangingTable(table, output, write=partial(print, flush=True))
    chosen: Selection[Any] = Selection(SCHEDULES, "" if everywhere else session.namespace, labels)
    async with followed(session.client, [chosen]) as follow:
        shown.begin([change.obj for change in follow.there if _is_named(change.obj, names)], clock.now())
        async for change in follow.changes():
            if _is_named(change.obj, names):
                shown.change(change.obj, clock.now(), gone=change.gone)


def _is_named(one: SnapshotSchedule, names: Sequence[str]) -> bool:
    return not names or one.metadata.name in names


async def _listed(session: Session, names: Sequence[str], *, labels: str, everywhere: bool) -> list[SnapshotSchedule]:
    if names:
        return [await found(session, name) for name in names]
    try:
        items = (await session.client.list(SCHEDULES, "" if everywhere else session.namespace, labels=labels)).items
    except NotFound as error:
        raise _not_installed(error) from error
    return sorted(items, key=lambda one: (one.metadata.namespace, one.metadata.name))
