"""What each command of `ullage snapshot` does, once its options are understood: read, ask the cluster, tell."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ullage.cli.common.session import Missing, Session, readable
from ullage.cli.common.text import size
from ullage.cli.snapshot import restoring, taking
from ullage.cli.snapshot.description import SnapshotDetails
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.reading import (
    Listed,
    events_of,
    find,
    list_snapshots,
    record_of,
    require_served,
    restored_claims,
    selection_of,
)
from ullage.cli.snapshot.text import problem, source
from ullage.cli.snapshot.waiting import Failed, SnapshotWaiter, WaitOptions
from ullage.kube.builtin import core
from ullage.kube.errors import Forbidden, NotFound
from ullage.snapshots.metrics import state_of
from ullage.snapshots.selection import OfClaims, OfVolume

# --- create ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    name: str
    claim: str
    class_name: str | None = None


async def create(session: Session, create_options: CreateOptions, *, dry_run: bool, timeout: float | None) -> None:
    """Without a timeout it does not wait."""
    [dialect] = session.among
    wanted = taking.new_snapshot(
        dialect, create_options.name, session.namespace, claim=create_options.claim, class_name=create_options.class_name
    )
    try:
        made = Found(dialect, await session.client.create(dialect.snapshots, wanted, dry_run=dry_run))
    except NotFound:
        await require_served(session)
        raise
    if dry_run:
        await _foretell(session, made)
        return
    print(f"{made.shown} created", flush=True)
    if timeout is not None:
        await SnapshotWaiter(session.client, [made], WaitOptions(goal="ready", timeout=timeout)).run()


async def _foretell(session: Session, made: Found) -> None:
    snapshot = made.snapshot
    seen = await taking.look_around(session.client, made.dialect, snapshot)
    outlook = taking.outlook(made.dialect, snapshot, seen)
    if outlook.problem is not None:
        raise Failed(f"{made.shown} would be created, and fail: {problem(outlook.problem)}")
    print(f"{made.shown} would be created (dry run)")
    _indent(outlook.lines)


# --- list, describe --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """`what`: pvc, pv, pod or statefulset, and its `name`; both empty for all snapshots."""

    what: str = ""
    name: str = ""
    everywhere: bool = False
    namespace_given: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    listed: Listed
    namespace: str  # "": all
    claimless: bool = False  # a pod or StatefulSet without any claim


async def listing(session: Session, list_options: ListOptions) -> Answer:
    selection = await selection_of(session, list_options.what, list_options.name)
    namespace = "" if list_options.everywhere else session.namespace
    if isinstance(selection, OfVolume) and selection.claim and not list_options.everywhere and not list_options.namespace_given:
        namespace = selection.claim.namespace  # a volume is in no namespace, so nobody thinks of naming one
    listed = await list_snapshots(replace(session, namespace=namespace), selection)
    return Answer(listed=listed, namespace=namespace, claimless=isinstance(selection, OfClaims) and not selection)


async def describe(session: Session, name: str) -> SnapshotDetails:
    found = await find(session, name)
    return SnapshotDetails(
        found=found,
        record=await record_of(session.client, found),
        claims=await restored_claims(session.client, found),
        events=await events_of(session.client, found.obj),
    )


# --- delete, wait ----------------------------------------------------------------------------------------------------


async def delete(session: Session, names: Sequence[str], *, dry_run: bool, timeout: float | None) -> None:
    """All are looked up before the first is deleted. Each is deleted on condition that it is still the one that was found."""
    wanted = await _find_all(session, names, "nothing was deleted")
    for one in wanted:
        meta = one.obj.metadata
        await session.client.delete(one.dialect.snapshots, meta.name, meta.namespace, uid=meta.uid, dry_run=dry_run)
        snapshot = one.snapshot
        what = f"claim {source(snapshot)}, {state_of(snapshot)}, {size(snapshot.state.restore_size)}"
        print(f"{one.shown} would be deleted (dry run): {what}" if dry_run else f"{one.shown} deleted", flush=True)
    if timeout is not None and not dry_run:
        await SnapshotWaiter(session.client, wanted, WaitOptions(goal="deleted", timeout=timeout)).run()


async def wait(session: Session, names: Sequence[str], *, goal: str, timeout: float) -> None:
    if goal != "deleted":
        await SnapshotWaiter(session.client, await _find_all(session, names), WaitOptions(goal=goal, timeout=timeout)).run()
        return
    found = []
    for name in names:
        try:
            found.append(await find(session, name))
        except Missing:
            print(f"{name}: gone")
    if found:
        await SnapshotWaiter(session.client, found, WaitOptions(goal=goal, timeout=timeout)).run()


async def _find_all(session: Session, names: Sequence[str], otherwise: str = "") -> list[Found]:
    found: list[Found] = []
    missing: list[Missing] = []
    for name in names:
        try:
            found.append(await find(session, name))
        except Missing as error:
            missing.append(error)
    if missing:
        raise Missing("; ".join([*map(str, missing), *([otherwise] if otherwise and len(names) > 1 else [])]))
    return found


# --- restore ---------------------------------------------------------------------------------------------------------


async def restore(
    session: Session, name: str, restore_options: restoring.RestoreOptions, *, dry_run: bool, timeout: float | None
) -> None:
    found = await find(session, name)
    snapshot = found.snapshot
    source_claim = await _source(session, snapshot.claim)
    wanted = restoring.new_claim(found, source_claim, restore_options)
    claim = await session.client.create(core.CLAIMS, wanted, dry_run=dry_run)
    print(f"persistentvolumeclaim/{restore_options.to} {'would be created (dry run)' if dry_run else 'created'}", flush=True)
    if dry_run:
        _indent(restoring.described(found, claim))
    if first := restoring.outlook(found):
        print(f"ullage: note: {problem(first)}", file=sys.stderr, flush=True)
    if timeout is not None and not dry_run:
        await restoring.ClaimWaiter(session.client, claim).run(timeout)


async def _source(session: Session, claim: str) -> core.PersistentVolumeClaim | None:
    found = await readable(session.client.find(core.CLAIMS, claim, session.namespace)) if claim else None
    return None if isinstance(found, Forbidden) else found


def _indent(lines: Sequence[str]) -> None:
    for line in lines:
        print(f"  {line}")
