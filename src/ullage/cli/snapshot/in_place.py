"""`ullage snapshot restore --in-place` and `--undo`: a claim itself gets a snapshot's data, or what it had before."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ullage.cli.common.listing import Table, shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.session import Missing, NotInstalled, Session, readable
from ullage.cli.common.text import plain
from ullage.cli.common.waiting import CopyLines, Failed, ProgressOutput, until
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.reading import find
from ullage.clock import Clock, SystemClock
from ullage.kube.client.client import Client
from ullage.kube.errors import AlreadyExists, Forbidden
from ullage.kube.kinds import Meta
from ullage.kube.objects import find_condition, is_deleting, is_true
from ullage.policies.restores import model
from ullage.policies.restores.api import SNAPSHOT_RESTORES, RestoreSource, SnapshotRestore, SnapshotRestoreSpec
from ullage.policies.restores.model import PodUser
from ullage.policies.restores.pods import in_use, users_of

_MOST: Final = 1000  # restores of one snapshot that have a name each

RESTORE_TABLE: Final[Table[SnapshotRestore]] = Table(
    head=("NAME", "CLAIM", "SNAPSHOT", "PHASE", "UNDO-UNTIL"),
    cells=lambda one, _: (
        one.metadata.name,
        one.spec.claim_name,
        one.spec.source.name,
        one.status.phase,
        one.status.undo_until,
    ),
    name=lambda one: f"snapshotrestore.{SNAPSHOT_RESTORES.group}/{one.metadata.name}",
    uid=lambda one: one.metadata.uid,
    body=lambda one: {"apiVersion": SNAPSHOT_RESTORES.api_version, "kind": SNAPSHOT_RESTORES.kind, **msgspec.to_builtins(one)},
    state="PHASE",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlaceOptions:
    undo_window: str = "24h"
    start_within: str = "10m"


def wanted_restore(found: Found, options: InPlaceOptions) -> SnapshotRestore:
    """Of the claim that the snapshot was taken of."""
    snapshot = found.snapshot
    if not snapshot.claim:
        raise Failed(
            f"snapshot {snapshot.meta.name} was imported, and is not known to be of any claim; restore it to a new one: --to"
        )
    source = RestoreSource(api_group=found.dialect.snapshots.group, name=snapshot.meta.name)
    spec = SnapshotRestoreSpec(
        claim_name=snapshot.claim, source=source, undo_window=options.undo_window, start_within=options.start_within
    )
    return SnapshotRestore(metadata=Meta(name=snapshot.meta.name, namespace=snapshot.meta.namespace), spec=spec)


async def using(session: Session, claim: str) -> Sequence[PodUser]:
    """The pods that use a claim, as far as the caller may see pods."""
    found = await readable(users_of(session.client, session.namespace, claim))
    return () if isinstance(found, Forbidden) else found


def refuse_used(restore: SnapshotRestore, users: Sequence[PodUser], *, waits: bool) -> None:
    """Who does not wait would not see that nothing happens as long as pods use the claim."""
    if users and not waits:
        raise Failed(
            f"{in_use(restore.spec.claim_name, tuple(users))}. Nothing was changed. Next: do that, and then this again; or say "
            f"--wait, and it begins as soon as nobody uses the claim"
        )


def used_note(restore: SnapshotRestore, users: Sequence[PodUser]) -> str:
    return f"{in_use(restore.spec.claim_name, tuple(users))}. It is waited for, {restore.spec.start_within} at most"


def question(restore: SnapshotRestore, users: Sequence[PodUser]) -> str:
    claim = restore.spec.claim_name
    used = f"\nNote: {used_note(restore, users)}." if users else ""
    return (
        f"Claim {claim} gets the data of snapshot {restore.spec.source.name}. What it has now is kept for "
        f"{restore.spec.undo_window} after that, and can be had back with --undo.{used}\nGo on?"
    )


def undo_question(restore: SnapshotRestore) -> str:
    return (
        f"Claim {restore.spec.claim_name} gets back what it had before {restore.status.completion_time}. What was written "
        "since is lost.\nGo on?"
    )


async def create(client: Client, wanted: SnapshotRestore, *, dry_run: bool) -> SnapshotRestore:
    """Under the snapshot's name, or that with a number where there was a restore of it before."""
    name = wanted.metadata.name
    for number in itertools.count(1):
        meta = msgspec.structs.replace(wanted.metadata, name=name if number == 1 else f"{name}-{number}")
        try:
            return await client.create(SNAPSHOT_RESTORES, msgspec.structs.replace(wanted, metadata=meta), dry_run=dry_run)
        except AlreadyExists:
            if number == _MOST:
                raise
    raise AssertionError("unreachable: the count has no end")


async def undoable(session: Session, snapshot: str) -> SnapshotRestore:
    """The latest restore of a snapshot that can be undone: of the one that --in-place would take, as long as that is there. A
    name alone may stand for snapshots of several claims, of both APIs or one after the other: then nothing is chosen."""
    now = await _snapshot_there(session, snapshot)
    groups = {one.snapshots.group for one in (session.among if now is None else (now.dialect,))}
    listed = await session.client.list(SNAPSHOT_RESTORES, session.namespace)
    of_name = [one for one in listed.items if one.spec.source.name == snapshot and one.spec.source.api_group in groups]
    of_it = sorted((one for one in of_name if now is None or one.spec.claim_name == now.snapshot.claim), key=model.order)
    kept, others = _kept(of_it), _kept(of_name)
    if not kept and others and now is not None:
        whose = f"snapshot {snapshot} is of {f'claim {now.snapshot.claim}' if now.snapshot.claim else 'no claim that is known'}"
        raise _unclear(session, f"{whose}; restores from an earlier one of this name can be undone", others)
    if len({one.spec.claim_name for one in kept}) > 1:
        gone = f"snapshot {snapshot} is gone, and restores of several claims from a snapshot of this name can be undone"
        raise _unclear(session, gone, kept)
    if not of_it:
        raise Missing(
            f"no restore in place of snapshot {snapshot} in namespace {session.namespace}: kubectl get snapshotrestores"
        )
    if not kept:
        raise _not_kept(snapshot, of_it[-1])
    return kept[-1]


async def _snapshot_there(session: Session, name: str) -> Found | None:
    """None: it is gone, or may not be read. What was restored from it can be undone all the same."""
    try:
        return await find(session, name)
    except (Missing, NotInstalled, Forbidden):
        return None


def _kept(restores: Sequence[SnapshotRestore]) -> list[SnapshotRestore]:
    return [one for one in restores if is_true(one.status.conditions, model.UNDOABLE) and not is_deleting(one.metadata)]


def _unclear(session: Session, why: str, restores: Sequence[SnapshotRestore]) -> Failed:
    named = ", ".join(f"{one.metadata.name} (claim {one.spec.claim_name})" for one in sorted(restores, key=model.order))
    command = f"kubectl patch snapshotrestore RESTORE -n {session.namespace} --type merge -p"
    return Failed(f"""{why}: {named}. Nothing was changed. Next: say which: {command} '{{"spec":{{"undo":true}}}}'""")


def _not_kept(snapshot: str, last: SnapshotRestore) -> Failed:
    if last.status.phase == model.UNDONE:
        return Failed(f"restore {last.metadata.name} of snapshot {snapshot} was undone already: there is nothing to undo")
    said = find_condition(last.status.conditions, model.UNDOABLE)
    why = f": {plain(said.message)}" if said else f": its phase is {last.status.phase or 'not known yet'}"
    return Failed(f"restore {last.metadata.name} of snapshot {snapshot} cannot be undone{why}")


async def undo(client: Client, restore: SnapshotRestore, *, dry_run: bool) -> SnapshotRestore:
    if dry_run:
        return restore
    meta = restore.metadata
    return await client.patch(SNAPSHOT_RESTORES, meta.name, meta.namespace, merge={"spec": {"undo": True}}, uid=meta.uid)


async def carry_out(
    session: Session,
    name: str,
    given: InPlaceOptions | None,
    *,
    confirm: Callable[[str], object],
    dry_run: bool,
    timeout: float | None,
    output: OutputFormat | None = None,
) -> None:
    """Restores in place, or undoes that where nothing is `given`. Without a timeout it does not wait."""
    client, goal = session.client, model.UNDONE if given is None else model.COMPLETE
    if given is None:
        restore = await undoable(session, name)
        confirm(undo_question(restore))
        users = await using(session, restore.spec.claim_name)
        restore, became = (
            await undo(client, restore, dry_run=dry_run),
            "would be undone (dry run)" if dry_run else "is being undone",
        )
        became += f" as soon as nobody uses the claim: {in_use(restore.spec.claim_name, tuple(users))}" if users else ""
    else:
        wanted = wanted_restore(await find(session, name), given)
        users = await using(session, wanted.spec.claim_name)
        refuse_used(wanted, users, waits=timeout is not None or dry_run)
        confirm(question(wanted, users))
        restore, became = await create(client, wanted, dry_run=dry_run), "would be created (dry run)" if dry_run else "created"
        became += f"; {used_note(wanted, users)}" if users else ""
    if output is None:
        print(f"snapshotrestore/{restore.metadata.name} {became}", flush=True)
    if timeout is not None and not dry_run:
        progress = ProgressOutput(None if output is None else sys.stderr)
        restore = await InPlaceWaiter(client, restore, goal=goal, output=progress).run(timeout)
    if output is not None:
        print(shown([restore], RESTORE_TABLE, output, now=SystemClock().now(), single=True))


class InPlaceWaiter:
    """Waits until the claim has the data, and tells what it is waited for."""

    def __init__(
        self,
        client: Client,
        restore: SnapshotRestore,
        *,
        goal: str,
        output: ProgressOutput | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._restore = restore
        self._goal = goal
        self._output = output or ProgressOutput()
        self._clock = clock or SystemClock()
        self._copies = CopyLines()
        self._told = ""

    async def run(self, timeout: float) -> SnapshotRestore:
        name, began = self._restore.metadata.name, self._clock.monotonic()
        with self._output.spinning(f"claim {self._restore.spec.claim_name} is being restored"):
            done = await until(self._look, timeout=timeout, late=lambda: self._late(timeout), clock=self._clock)
        took = self._clock.monotonic() - began
        until_when = f"; it can be undone until {done.status.undo_until}" if done.status.undo_until else ""
        self._output.line(f"{name}: {done.status.phase} (waited {took:.1f} s){until_when}")
        return done

    async def _look(self) -> SnapshotRestore | None:
        meta = self._restore.metadata
        found = await self._client.find(SNAPSHOT_RESTORES, meta.name, meta.namespace)
        if found is None or found.metadata.uid != meta.uid:
            raise Missing(f"restore {meta.name} was deleted")
        if found.status.phase == self._goal:
            return found
        self._tell(found)
        complete = find_condition(found.status.conditions, model.IS_COMPLETE)
        if found.status.phase == model.FAILED and complete is not None:
            raise Failed(f"claim {found.spec.claim_name} is as it was: {complete.reason}: {plain(complete.message)}")
        return None

    def _tell(self, found: SnapshotRestore) -> None:
        waits = model.UNDOABLE if self._goal == model.UNDONE else model.IS_COMPLETE
        said = find_condition(found.status.conditions, waits)
        news = said is not None and found.status.phase and said.reason != "Kept"  # that it can be undone is no news here
        text = plain(f"{found.status.phase}: {said.message}") if said is not None and news else ""
        if text and text != self._told:
            self._told = text
            self._output.line(f"{found.metadata.name}: {text}")
        if self._copies.worth(found.metadata.name, plain(found.status.progress), self._clock.monotonic()):
            self._output.line(f"{found.metadata.name}: {plain(found.status.progress)}")

    def _late(self, timeout: float) -> str:
        meta = self._restore.metadata
        return (
            f"claim {self._restore.spec.claim_name} has not got its data within {timeout:g} s; nothing was stopped, look at it "
            f"with: kubectl describe snapshotrestore {meta.name} -n {meta.namespace}"
        )
