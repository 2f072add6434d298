"""What `ullage snapshot share`, `shares` and `unshare` ask of a cluster, once their options are understood.

The share that the command writes has a name that follows from the snapshot and from what it is called elsewhere, so that
doing it twice makes one. What others have written is shown, and taken back only by its snapshot's name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from ullage.cli.common.session import Missing, NotInstalled, Session, readable
from ullage.cli.common.text import plain
from ullage.cli.common.waiting import Failed, ProgressOutput, until
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.reading import find
from ullage.clock import Clock, SystemClock
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.client.client import Client
from ullage.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from ullage.kube.kinds import Meta
from ullage.kube.objects import is_deleting, name_for
from ullage.policies.sharing.api import MOST_NAMED, SHARES, ShareSource, ShareSpec, ShareTarget, ShareTargets, SnapshotShare

TRIES: Final = 5
PAUSE_SECONDS: Final = 0.2
ENDS: Final = ("Refused", "Removed")  # states that somebody has to do something about


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOptions:
    to: Sequence[str]
    name: str = ""  # what it is called there; empty: as it is here


@asynccontextmanager
async def administering() -> AsyncIterator[None]:
    """What a server says of rights and kinds does not tell a tenant why, nor what to do."""
    try:
        yield
    except Forbidden as error:
        told = "only administrators may give snapshots to other namespaces, and no role of a namespace has that right: ask one"
        raise Forbidden(f"{told}. {error.message}", code=error.code, reason=error.reason, details=error.details) from error
    except NotFound as error:
        if error.names(SHARES.group, SHARES.plural, str(error.details.get("name", ""))):
            raise
        raise NotInstalled(f"the cluster has no SnapshotShares ({error.message}). Next: ullage install") from error


# --- share -----------------------------------------------------------------------------------------------------------


async def share(session: Session, name: str, wanted: ShareOptions, *, dry_run: bool) -> SnapshotShare:
    found = await find(session, name)
    if session.namespace in wanted.to:
        raise Failed(f"snapshot {name} is in namespace {session.namespace} already: name others with --to")
    async with administering():
        for _ in range(TRIES):
            try:
                return await _write(session.client, found, wanted, dry_run=dry_run)
            except (AlreadyExists, Conflict):  # somebody was quicker
                await asyncio.sleep(PAUSE_SECONDS)
    raise Conflict(f"the share of snapshot {name} was changed by others each of {TRIES} times", code=409, reason="Conflict")


async def _write(client: Client, found: Found, wanted: ShareOptions, *, dry_run: bool) -> SnapshotShare:
    new = new_share(found, wanted)
    there = await client.find(SHARES, new.metadata.name)
    if there is None:
        return await client.create(SHARES, new, dry_run=dry_run)
    again = f"ullage snapshot unshare {found.snapshot.meta.name} -n {found.snapshot.meta.namespace}"
    if is_deleting(there.metadata):
        raise Failed(f"share {there.metadata.name} is being taken back: try again when it is gone (ullage snapshot shares)")
    if there.status.source_uid and there.status.source_uid != found.snapshot.meta.uid:
        raise Failed(f"share {there.metadata.name} gives an earlier snapshot of that name; take that back first: {again}")
    namespaces = tuple(dict.fromkeys((*there.spec.targets.namespaces, *wanted.to)))
    _check_room(namespaces)
    if namespaces == there.spec.targets.namespaces:
        _check_removed(there, wanted.to, again)
        return there
    merge = {"spec": {"targets": {"namespaces": list(namespaces)}}}
    meta = there.metadata
    return await client.patch(
        SHARES, meta.name, merge=merge, uid=meta.uid, resource_version=meta.resource_version, dry_run=dry_run
    )


def new_share(found: Found, wanted: ShareOptions) -> SnapshotShare:
    meta, there = found.snapshot.meta, wanted.name or found.snapshot.meta.name
    _check_room(wanted.to)
    return SnapshotShare(
        metadata=Meta(name=name_for("share", meta.namespace, meta.name, found.dialect.name, there, limit=100)),
        spec=ShareSpec(
            source=ShareSource(namespace=meta.namespace, name=meta.name),
            dialect=found.dialect.name,
            targets=ShareTargets(namespaces=tuple(wanted.to)),
            name="" if there == meta.name else there,
        ),
    )


def _check_removed(there: SnapshotShare, namespaces: Sequence[str], again: str) -> None:
    """What a namespace has deleted does not come back by itself."""
    if removed := [one.namespace for one in there.status.targets if one.state == "Removed" and one.namespace in namespaces]:
        told = f"{', '.join(removed)} had it, and has deleted it"
        raise Failed(f"{told}; to give it again, take it back first: {again} --from {','.join(removed)}")


def _check_room(namespaces: Sequence[str]) -> None:
    if len(namespaces) > MOST_NAMED:
        told = f"a share names {MOST_NAMED} namespaces at most, and these would be {len(namespaces)}"
        raise Failed(f"{told}: choose them by their labels (spec.targets.matchLabels of a SnapshotShare)")


async def missing_namespaces(session: Session, names: Sequence[str]) -> list[str]:
    """Those that are not there; none where that may not be read."""
    found = [(name, await readable(session.client.find(NAMESPACES, name))) for name in names]
    return [name for name, one in found if one is None]


# --- wait ------------------------------------------------------------------------------------------------------------


class ShareWaiter:
    """Waits until namespaces have it, and tells what it is waited for."""

    def __init__(
        self,
        client: Client,
        share: SnapshotShare,
        namespaces: Sequence[str],
        *,
        output: ProgressOutput | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._share = share
        self._waits = dict.fromkeys(namespaces, "")  # with what was told of each
        self._output = output or ProgressOutput()
        self._clock = clock or SystemClock()

    async def run(self, timeout: float) -> SnapshotShare:
        with self._output.spinning(f"snapshot {self._share.spec.source.name} is being given"):
            return await until(self._look, timeout=timeout, late=lambda: self._late(timeout), clock=self._clock)

    async def _look(self) -> SnapshotShare | None:
        meta = self._share.metadata
        found = await self._client.find(SHARES, meta.name)
        if found is None or found.metadata.uid != meta.uid:
            raise Missing(f"share {meta.name} was deleted")
        entries = {one.namespace: one for one in found.status.targets}
        for namespace in self._waits:
            self._tell(namespace, entries.get(namespace))
        if bad := [one for name in self._waits if (one := entries.get(name)) is not None and one.state in ENDS]:
            told = "; ".join(f"namespace {one.namespace}: {one.state}: {plain(one.message)}" for one in bad)
            raise Failed(f"not every namespace has it: {told}")
        return found if all(name in entries and entries[name].state == "Shared" for name in self._waits) else None

    def _tell(self, namespace: str, entry: ShareTarget | None) -> None:
        text = plain(f"{entry.state}: {entry.message}" if entry.message else entry.state) if entry is not None else ""
        if text and text != self._waits[namespace]:
            self._waits[namespace] = text
            self._output.line(f"namespace {namespace}: {text}")

    def _late(self, timeout: float) -> str:
        return (
            f"not every namespace has snapshot {self._share.spec.source.name} within {timeout:g} s; it is tried on: "
            f"ullage snapshot shares {self._share.spec.source.name} -n {self._share.spec.source.namespace}"
        )


# --- shares, unshare -------------------------------------------------------------------------------------------------


async def shares(session: Session, name: str, *, everywhere: bool) -> list[SnapshotShare]:
    """Of one snapshot, or all of a namespace, or of all."""
    async with administering():
        found = (await session.client.list(SHARES)).items
    dialects = {one.name for one in session.among}
    return [
        one
        for one in found
        if (everywhere or one.spec.source.namespace == session.namespace)
        and one.spec.dialect in dialects
        and name in ("", one.spec.source.name)
    ]


async def unshare(session: Session, name: str, namespaces: Sequence[str], *, dry_run: bool) -> list[tuple[SnapshotShare, str]]:
    """Each share that it is taken out of, and from whom. The snapshot itself need not exist any more."""
    found = await shares(session, name, everywhere=False)
    if not found:
        raise Missing(f"snapshot {name} of namespace {session.namespace} is given to nobody: ullage snapshot shares -A")
    if not namespaces:
        for one in found:
            async with administering():
                await session.client.delete(SHARES, one.metadata.name, uid=one.metadata.uid, dry_run=dry_run)
        return [(one, "every namespace") for one in found]
    named = {namespace for one in found for namespace in one.spec.targets.namespaces}
    if strange := [one for one in namespaces if one not in named]:
        by_labels = next((one for one in found if one.spec.targets.match_labels), None)
        hint = f"; share {by_labels.metadata.name} chooses by labels" if by_labels is not None else ""
        raise Failed(f"no share of snapshot {name} names {', '.join(strange)}{hint}: nothing was changed")
    return [
        (one, ", ".join(less))
        for one in found
        if (less := [each for each in one.spec.targets.namespaces if each in namespaces])
        and await _take_out(session.client, one, less, dry_run=dry_run)
    ]


async def _take_out(client: Client, share: SnapshotShare, less: Sequence[str], *, dry_run: bool) -> bool:
    """With its last namespace the share goes."""
    meta, targets = share.metadata, share.spec.targets
    left = [one for one in targets.namespaces if one not in less]
    async with administering():
        if not left and not targets.match_labels:
            await client.delete(SHARES, meta.name, uid=meta.uid, resource_version=meta.resource_version, dry_run=dry_run)
        else:
            merge = {"spec": {"targets": {"namespaces": left}}}
            await client.patch(
                SHARES, meta.name, merge=merge, uid=meta.uid, resource_version=meta.resource_version, dry_run=dry_run
            )
    return True
