"""What each command of `ullage snapshot` does, once its options are understood: read, ask the cluster, tell."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ullage.cli.common.events import events_of
from ullage.cli.common.listing import ChangingTable, Table, shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.session import Missing, Session, readable
from ullage.cli.common.text import size
from ullage.cli.common.waiting import Failed, ProgressOutput
from ullage.cli.common.watching import Change, followed
from ullage.cli.snapshot import restoring, taking
from ullage.cli.snapshot.description import SnapshotDetails
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.reading import (
    Listed,
    find,
    list_snapshots,
    record_of,
    require_served,
    restored_claims,
    selection_of,
)
from ullage.cli.snapshot.selection import Everything, OfClaims, OfVolume, Selection
from ullage.cli.snapshot.text import in_order, layout, problem, source
from ullage.cli.snapshot.waiting import SnapshotWaiter, WaitOptions
from ullage.clock import Clock, SystemClock
from ullage.kube.builtin import core
from ullage.kube.cache.reflector import Selection as Followable
from ullage.kube.errors import Forbidden, NotFound
from ullage.snapshots.metrics import state_of

T = TypeVar("T")

# --- create ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    name: str
    claim: str
    class_name: str | None = None


async def create(
    session: Session,
    create_options: CreateOptions,
    *,
    dry_run: bool,
    timeout: float | None,
    output: OutputFormat | None = None,
) -> None:
    """Without a timeout it does not wait. With an `output` the object is all that is printed. What can be seen to fail is not
    created: a person would have to delete it again."""
    [dialect] = session.among
    wanted = taking.new_snapshot(
        dialect, create_options.name, session.namespace, claim=create_options.claim, class_name=create_options.class_name
    )
    try:
        outlook = await _outlook(session, Found(dialect, wanted), dry_run=dry_run)
        made = Found(dialect, await session.client.create(dialect.snapshots, wanted, dry_run=dry_run))
    except NotFound:
        await require_served(session)
        raise
    if output is None:
        print(f"{made.shown} {'would be created (dry run)' if dry_run else 'created'}", flush=True)
        _indent(outlook.lines if dry_run else ())
    if timeout is not None and not dry_run:
        terms = WaitOptions(goal="ready", timeout=timeout)
        await SnapshotWaiter(session.client, [made], terms, output=_progress(output)).run()
        made = await find(replace(session, among=[dialect]), create_options.name)
    if output is not None:
        _print_object(made, layout(), output)


async def _outlook(session: Session, wanted: Found, *, dry_run: bool) -> taking.Outlook:
    snapshot = wanted.snapshot
    seen = await taking.look_around(session.client, wanted.dialect, snapshot)
    outlook = taking.outlook(wanted.dialect, snapshot, seen)
    if outlook.problem is not None:
        # The server's own word counts for more: that the kind, the namespace or the right is missing.
        await session.client.create(wanted.dialect.snapshots, wanted.obj, dry_run=True)
        became = "would not be created" if dry_run else "was not created"
        raise Failed(f"snapshot {snapshot.meta.name} {became}: {problem(outlook.problem)}")
    return outlook


# --- list, describe --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """`what`: pvc, pv, pod or statefulset, and its `name`; both empty for all snapshots. `named`: those of these names."""

    what: str = ""
    name: str = ""
    named: Sequence[str] = ()
    labels: str = ""
    everywhere: bool = False
    namespace_given: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    listed: Listed
    namespace: str  # "": all
    selection: Selection

    @property
    def claimless(self) -> bool:
        """It is about a pod or StatefulSet without any claim."""
        return isinstance(self.selection, OfClaims) and not self.selection


async def listing(session: Session, list_options: ListOptions) -> Answer:
    if list_options.named:
        found = await _find_all(session, list_options.named)
        served = {one.dialect.name: one.dialect for one in found}
        return Answer(listed=Listed(found, list(served.values())), namespace=session.namespace, selection=Everything())
    selection = await selection_of(session, list_options.what, list_options.name)
    namespace = "" if list_options.everywhere else session.namespace
    if isinstance(selection, OfVolume) and selection.claim and not list_options.everywhere and not list_options.namespace_given:
        namespace = selection.claim.namespace  # a volume is in no namespace, so nobody thinks of naming one
    listed = await list_snapshots(replace(session, namespace=namespace), selection, labels=list_options.labels)
    return Answer(listed=listed, namespace=namespace, selection=selection)


async def watch(
    session: Session,
    list_options: ListOptions,
    show: Callable[[Answer], ChangingTable[Found]],
    *,
    clock: Clock | None = None,
) -> None:
    """Until it is interrupted. `show` begins the table once it is known which APIs are served. What a pod or a StatefulSet
    uses is looked up once."""
    clock = clock or SystemClock()
    answer = await listing(session, list_options)
    by_kind = {dialect.snapshots.name: dialect for dialect in answer.listed.served}
    named = frozenset(list_options.named)

    def wanted(change: Change) -> Found | None:
        one = Found(by_kind[change.kind.name], change.obj)
        taken = one.obj.metadata.name in named if named else answer.selection.takes(one.snapshot)
        return one if taken else None

    selections = [
        Followable(dialect.snapshots, answer.namespace, labels=list_options.labels) for dialect in answer.listed.served
    ]
    async with followed(session.client, selections) as follow:
        there = [one for change in follow.there if (one := wanted(change)) is not None]
        table = show(answer)
        table.begin(in_order(there), clock.now())
        async for change in follow.changes():
            if (one := wanted(change)) is not None:
                table.change(one, clock.now(), gone=change.gone)


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
    session: Session,
    name: str,
    restore_options: restoring.RestoreOptions,
    *,
    dry_run: bool,
    timeout: float | None,
    output: OutputFormat | None = None,
) -> None:
    """As `create`."""
    found = await find(session, name)
    snapshot = found.snapshot
    record = await record_of(session.client, found)
    known = None if isinstance(record, Forbidden) else record
    source = restoring.source_of(found, known, await _source(session, snapshot.claim))
    wanted = restoring.new_claim(found, source, restore_options)
    await restoring.require_class(session.client, restore_options)
    claim = await session.client.create(core.CLAIMS, wanted, dry_run=dry_run)
    if output is None:
        became = "would be created (dry run)" if dry_run else "created"
        print(f"persistentvolumeclaim/{restore_options.to} {became}", flush=True)
        _indent(restoring.described(found, claim) if dry_run else ())
    if first := restoring.outlook(found):
        print(f"ullage: note: {problem(first)}", file=sys.stderr, flush=True)
    if timeout is not None and not dry_run:
        await restoring.ClaimWaiter(session.client, claim, found, output=_progress(output)).run(timeout)
        claim = await session.client.get(core.CLAIMS, claim.metadata.name, claim.metadata.namespace)
    if output is not None:
        _print_object(claim, restoring.CLAIM_TABLE, output)


async def _source(session: Session, claim: str) -> core.PersistentVolumeClaim | None:
    found = await readable(session.client.find(core.CLAIMS, claim, session.namespace)) if claim else None
    return None if isinstance(found, Forbidden) else found


def _progress(output: OutputFormat | None) -> ProgressOutput:
    """Who wants the object on standard output has the rest on the other."""
    return ProgressOutput(None if output is None else sys.stderr)


def _print_object(obj: T, table: Table[T], output: OutputFormat) -> None:
    print(shown([obj], table, output, now=SystemClock().now(), single=True))


def _indent(lines: Sequence[str]) -> None:
    for line in lines:
        print(f"  {line}")
