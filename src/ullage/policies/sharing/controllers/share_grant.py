"""Gives a snapshot to other namespaces, and takes it back: gathers, has its rules say what is next in each, does it.

A record that is made while the source goes may stand for data that is just being deleted. So the source is looked at in the
API once more after the record is there, and before anybody gets a snapshot of it: a deletion that has not begun by then finds
the record, and leaves the data.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ullage.clock import Clock, SystemClock
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import hold, let_go, patch_seen, patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, TooManyRequests
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.policies.sharing import model
from ullage.policies.sharing.api import SHARES, ShareStatus, ShareTarget, SnapshotShare
from ullage.policies.sharing.controllers import share_grant_rules as rules
from ullage.policies.sharing.lookup import DIALECTS, ShareLookup
from ullage.snapshots.model import Dialect, Problem, Record, Snapshot

BATCH: Final = 20  # namespaces that something is done in with one look
AGAIN_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 60.0  # where a namespace has no room, or the name is taken

SHARED_EVENT: Final = Reason("SnapshotShared")
REVOKED_EVENT: Final = Reason("SnapshotRevoked")
REFUSED_EVENT: Final = Reason("ShareRefused", type="Warning")


class ShareController:
    def __init__(
        self,
        client: Client,
        lookup: ShareLookup,
        *,
        drivers: Collection[str],
        recorder: EventRecorder,
        clock: Clock | None = None,
    ) -> None:
        """`drivers` are those whose snapshots are ours to delete."""
        self._client = client
        self._drivers = drivers
        self._lookup = lookup
        self._recorder = recorder
        self._clock = clock or SystemClock()

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        lookup = self._lookup
        sources: list[Source[Any, Key]] = [own(lookup.shares), Source(lookup.namespaces, lookup.of_namespace)]
        for name in DIALECTS:
            sources.append(Source(lookup.snapshots[name], partial(lookup.of_snapshot, name)))
            sources.append(Source(lookup.records[name], partial(lookup.of_record, name)))
        return Controller("snapshot-shares", sources, self.reconcile, clock=self._clock, metrics=metrics)

    async def reconcile(self, key: Key) -> Requeue | None:
        share = self._lookup.shares.get(key)
        if share is None:
            return None
        if is_deleting(share.metadata):
            if model.FINALIZER not in share.metadata.finalizers:
                return None
            if spec := rules.corrected(share.spec):
                share = await patch_seen(self._client, SHARES, share, {"spec": spec})
        else:
            share = await hold(self._client, SHARES, share, model.FINALIZER)
        source, uid = self._source(share)
        granted = rules.granted_to(share, (one.metadata for one in self._lookup.namespaces.items()))
        share = await self._write(share, rules.planned(share, granted, uid=uid))
        targets, acted = await self._go_on(share, source, granted)
        share = await self._write(share, rules.concluded(share, targets, source, self._clock.now()))
        if is_deleting(share.metadata) and not targets:
            await let_go(self._client, SHARES, share, model.FINALIZER)
            return None
        if acted or any(one.state == "Revoking" for one in targets):  # once the record is gone, nothing tells whose it was
            return Requeue(AGAIN_SECONDS)
        return Requeue(RETRY_SECONDS) if any(one.state == "Refused" for one in targets) else None

    async def _go_on(
        self, share: SnapshotShare, source: Record | Problem, granted: dict[str, Any]
    ) -> tuple[list[ShareTarget], bool]:
        targets: list[ShareTarget] = []
        left = BATCH
        for entry in share.status.targets:
            facts = await self._facts(share, entry, source=source, granted=rules.is_granted(entry, granted))
            step = rules.next_step(facts)
            acts = step.act not in (rules.Act.NOTHING, rules.Act.FORGET)
            if acts and not left:
                targets.append(entry)
                continue
            left -= acts
            done = await self._act(facts, step)
            if done is not None:
                targets.append(done)
        return targets, left < BATCH

    # --- gathering ---

    def _source(self, share: SnapshotShare) -> tuple[Record | Problem, str]:
        """What is shared, and the uid of its snapshot."""
        source, dialect = share.spec.source, share.spec.dialect
        snapshot = self._lookup.snapshot(dialect, source.namespace, source.name)
        record = self._lookup.record(dialect, snapshot.state.record if snapshot is not None else "")
        found = rules.source_of(share, snapshot, record, drivers=self._drivers)
        return found, snapshot.meta.uid if snapshot is not None and isinstance(found, Record) else ""

    async def _facts(
        self, share: SnapshotShare, entry: ShareTarget, *, source: Record | Problem, granted: bool
    ) -> rules.TargetFacts:
        """Of what seems to be gone the API knows best: caches may be behind."""
        dialect = DIALECTS[share.spec.dialect]
        name, record = model.name_there(share), self._lookup.record(dialect.name, entry.record)
        snapshot = self._lookup.snapshot(dialect.name, entry.namespace, name)
        if snapshot is None and (entry.snapshot_uid or not granted):
            snapshot = await self._find_snapshot(dialect, entry.namespace, name)
        if record is None:
            record = await self._find_record(dialect, entry.record)
        return rules.TargetFacts(share=share, entry=entry, granted=granted, source=source, record=record, snapshot=snapshot)

    async def _find_snapshot(self, dialect: Dialect[Any, Any], namespace: str, name: str) -> Snapshot | None:
        found = await self._client.find(dialect.snapshots, name, namespace)
        return dialect.read_snapshot(found) if found is not None else None

    async def _find_record(self, dialect: Dialect[Any, Any], name: str) -> Record | None:
        found = await self._client.find(dialect.records, name)
        return dialect.read_record(found) if found is not None else None

    # --- acting ---

    async def _act(self, facts: rules.TargetFacts, step: rules.Step) -> ShareTarget | None:
        """The entry as it is then; None: nothing is left of it."""
        dialect, entry = DIALECTS[facts.share.spec.dialect], step.entry
        match step.act:
            case rules.Act.CREATE_RECORD if isinstance(facts.source, Record):
                return await self._create_record(facts.share, entry, facts.source)
            case rules.Act.CREATE_SNAPSHOT:
                return await self._create_snapshot(facts.share, entry)
            case rules.Act.DELETE_SNAPSHOT if facts.snapshot is not None:
                meta = facts.snapshot.meta
                await self._delete(dialect.snapshots, meta.name, meta.namespace, uid=meta.uid)
                note = f"It is taken back from namespace {meta.namespace}."
                self._recorder.record(SHARES, facts.share, REVOKED_EVENT, note=note)
            case rules.Act.DELETE_RECORD if facts.record is not None:
                await self._delete(dialect.records, facts.record.meta.name, "", uid=facts.record.meta.uid)
            case rules.Act.FORGET:
                return None
        return entry

    async def _create_record(self, share: SnapshotShare, entry: ShareTarget, source: Record) -> ShareTarget:
        dialect = DIALECTS[share.spec.dialect]
        body = model.new_record(share, entry.namespace, source, dialect)
        with contextlib.suppress(AlreadyExists):  # by us, a moment ago
            await self._client.create(dialect.records, msgspec.convert(body, dialect.records.type))
        return entry

    async def _create_snapshot(self, share: SnapshotShare, entry: ShareTarget) -> ShareTarget:
        dialect, source = DIALECTS[share.spec.dialect], await self._live_source(share)
        if isinstance(source, Problem):
            return replace(entry, state="Waiting", message=source.message)  # the next look takes the record back
        body = model.new_snapshot(share, entry.namespace, dialect)
        try:
            made = await self._client.create(dialect.snapshots, msgspec.convert(body, dialect.snapshots.type))
        except AlreadyExists:
            return entry  # the next look tells whose
        except TooManyRequests as error:
            return replace(entry, state="Refused", message=error.message)
        except (Forbidden, Invalid, NotFound) as error:
            self._recorder.record(SHARES, share, REFUSED_EVENT, note=f"namespace {entry.namespace}: {error.message}")
            return replace(entry, state="Refused", message=error.message)
        self._recorder.record(SHARES, share, SHARED_EVENT, note=f"Namespace {entry.namespace} has it.")
        return replace(entry, snapshot_uid=made.metadata.uid, state="Shared", message="")

    async def _live_source(self, share: SnapshotShare) -> Record | Problem:
        source, dialect = share.spec.source, DIALECTS[share.spec.dialect]
        snapshot = await self._find_snapshot(dialect, source.namespace, source.name)
        record = await self._find_record(dialect, snapshot.state.record) if snapshot and snapshot.state.record else None
        return rules.source_of(share, snapshot, record, drivers=self._drivers)

    async def _delete(self, kind: Any, name: str, namespace: str, *, uid: str) -> None:
        with contextlib.suppress(NotFound, Conflict):  # gone, or another one of the name
            await self._client.delete(kind, name, namespace, uid=uid)

    async def _write(self, share: SnapshotShare, status: ShareStatus) -> SnapshotShare:
        done = await patch_status(self._client, SHARES, share, old=share.status, new=status)
        return share if done is None else done
