"""Fills claims from snapshots: has the volume made, and writes its PersistentVolume, which the cluster binds.

Every write is a step from which a later process goes on:

    finalizer on the claim → the storage system makes the volume → PersistentVolume → finalizer off

The cluster's binder writes on a new claim first: it asks the provisioner of the class for a volume. A write of ours before that
makes the binder's fail.

A claim that goes in the middle is held by the finalizer until the volume is gone too. Once the PersistentVolume stands, its
own deletion is the affair of `controllers/volume_reclaim`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from ullage.clock import Clock, SystemClock
from ullage.errors import Impossible, NotNow, Retryable, Terminal
from ullage.kube.builtin.core import CLAIMS, NODES, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.builtin.storage import CSI_NODES, StorageClass
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import ObjectClient
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import AlreadyExists
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Meta
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import with_finalizer, without_finalizer
from ullage.kube.slices import Write
from ullage.snapshots.api.ga.types import GROUP as GA_GROUP
from ullage.snapshots.backends.base import Backend, InProgress, Restored, Secrets
from ullage.snapshots.binding import was_shared
from ullage.snapshots.controllers.claim_restore_eligibility import Blocker, RestoreFacts, review
from ullage.snapshots.controllers.claim_restore_rules import (
    NEW_VOLUMES,
    AwaitBinder,
    Leave,
    Make,
    Release,
    Report,
    RestoreRequest,
    Undo,
    decide,
    new_volume,
    topology_of,
)
from ullage.snapshots.data_source import RESTORED_FROM_UID, RESTORING, DataSource, data_source_of, has_begun, volume_name
from ullage.snapshots.lookup import SnapshotLookup, VolumeLookup
from ullage.snapshots.model import PROGRESS, Snapshot
from ullage.snapshots.restored_volume import is_for, is_ours
from ullage.snapshots.secrets import read_secrets
from ullage.snapshots.source_volume import source_volume_of

# What wakes a claim that waits for a snapshot: the claim itself, and anything that its volume is made from.


def sources(volumes: VolumeLookup, lookups: Iterable[SnapshotLookup]) -> list[Source[Any, Key]]:
    """A claim is looked at when it changes, and when anything does that it is made from."""

    def of_class(found: StorageClass) -> Iterable[Key]:
        return map(key_of, volumes.claims_of_class(found.metadata.name))

    found: list[Source[Any, Key]] = [
        Source(volumes.claims, _own, when=_matters),
        Source(volumes.classes, of_class),
        Source(volumes.volumes, _claim_of),
    ]
    for lookup in lookups:
        found += _of_api(volumes, lookup)
    return found


def _of_api(volumes: VolumeLookup, lookup: SnapshotLookup) -> list[Source[Any, Key]]:
    group = lookup.dialect.snapshots.group

    def filled_from(namespace: str, name: str) -> Iterable[Key]:
        return map(key_of, volumes.claims_from(DataSource(group, namespace, name)))

    def of_snapshot(found: Any) -> Iterable[Key]:
        return filled_from(found.metadata.namespace, found.metadata.name)

    def of_record(found: Any) -> Iterable[Key]:
        ref = lookup.dialect.read_record(found).ref
        return filled_from(ref.namespace, ref.name)

    return [Source(lookup.snapshots, of_snapshot), Source(lookup.records, of_record)]


def _own(claim: PersistentVolumeClaim) -> Iterable[Key]:
    return (key_of(claim),) if data_source_of(claim) is not None else ()


def _claim_of(volume: PersistentVolume) -> Iterable[Key]:
    ref = volume.spec.claim_ref
    return (Key(ref.namespace, ref.name),) if is_ours(volume) and ref is not None else ()


def _matters(old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> bool:
    """Our own finalizer and mark are no news: taking it off after a failure would be the reason for the next try."""
    return old is None or new is None or _rest(old) != _rest(new)


def _rest(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    held = without_finalizer(claim.metadata, RESTORING)
    notes = {key: value for key, value in held.annotations.items() if key != RESTORED_FROM_UID}
    meta = msgspec.structs.replace(held, resource_version="", annotations=notes)
    return msgspec.structs.replace(claim, metadata=meta)


LONGEST_RESTORE: Final = 24 * 3600.0  # seconds: a copy may be large, and each backend sets limits of its own
PROGRESS_SECONDS: Final = 2.0  # between two looks at a copy that takes long
AFTER_REFUSAL: Final = 1800.0  # seconds: a Secret or the driver may have been mended, and nobody watches these

# What this controller and that of `volume/reclaim` do besides watching.
WRITES: Final = (
    Write(CLAIMS, ("get", "patch")),
    Write(PERSISTENT_VOLUMES, ("get", "create", "patch", "delete")),
    Write(PERSISTENT_VOLUMES, ("patch",), ("status",)),
    Write(NODES, ("get",)),
    Write(CSI_NODES, ("get",)),
)


class Restorer:
    """The controller of claims that are to be filled from snapshots."""

    def __init__(
        self,
        client: ObjectClient,
        volumes: VolumeLookup,
        lookups: Sequence[SnapshotLookup],
        *,
        backends: Mapping[str, Backend],
        recorder: EventRecorder,
        elsewhere: frozenset[str] = frozenset(),
        clock: Clock | None = None,
    ) -> None:
        """`elsewhere` are drivers that another provisioner serves too."""
        self._clock = clock or SystemClock()
        self._elsewhere = elsewhere
        self._client = client
        self._volumes = volumes
        self._lookups = {lookup.dialect.snapshots.group: lookup for lookup in lookups}
        self._backends = backends
        self._recorder = recorder
        self._unasked: dict[Key, tuple[str, float]] = {}  # claims that the binder has not asked for: uid, and since when

    def controller(self, *, workers: int = 4, metrics: KubeMetrics | None = None) -> Controller[Key]:
        return Controller(
            "restores",
            sources(self._volumes, self._lookups.values()),
            self.reconcile,
            workers=workers,
            clock=self._clock,
            metrics=metrics,
            longest_run=LONGEST_RESTORE,
            after_terminal=AFTER_REFUSAL,
        )

    async def reconcile(self, key: Key) -> Requeue | None:
        facts = await self._gather(key)
        plan = decide(facts) if facts is not None else Leave()
        if not isinstance(plan, AwaitBinder):
            self._unasked.pop(key, None)
        if facts is None:
            return None
        match plan:
            case AwaitBinder(seconds):
                self._unasked.setdefault(key, (facts.claim.metadata.uid, self._clock.monotonic()))
                return Requeue(seconds)
            case Report(blocker):
                self._record_event(facts.claim, blocker)
            case Make(request):
                return await self._until_done(facts.claim, self._make(facts, request))
            case Undo(request):
                return await self._until_done(facts.claim, self._undo(facts.claim, request))
            case Release():
                await self._release(facts.claim)
            case Leave():
                pass
        return None

    # --- gather ---

    async def _gather(self, key: Key) -> RestoreFacts | None:
        claim = self._volumes.claims.get(key)
        source = data_source_of(claim) if claim is not None else None
        if claim is None or source is None:
            return None
        volume = self._volumes.volumes.get(Key("", volume_name(claim)))
        if has_begun(claim):
            # What is to be gone on with, or undone, is decided on what is there now: a cache may be behind by a whole life.
            live = await self._client.find(CLAIMS, key.name, key.namespace)
            if live is None or live.metadata.uid != claim.metadata.uid:
                return None
            claim, volume = live, await self._client.find(PERSISTENT_VOLUMES, volume_name(claim))
        return self._facts(claim, source, volume)

    def _facts(self, claim: PersistentVolumeClaim, source: DataSource, volume: PersistentVolume | None) -> RestoreFacts:
        facts = RestoreFacts(
            claim=claim,
            source=source,
            drivers=self._drivers(source.group),
            storage_class=self._volumes.classes.get(Key("", claim.spec.storage_class_name or "")),
            made=volume is not None and is_for(volume, claim),
            waited=self._waited(claim),
        )
        lookup = self._lookups.get(source.group)
        snapshot = lookup.snapshot(source.namespace, source.name) if lookup else None
        record = lookup.record(snapshot.state.record) if lookup and snapshot else None
        return replace(facts, snapshot=snapshot, record=record)

    def _waited(self, claim: PersistentVolumeClaim) -> float:
        key = key_of(claim)
        uid, since = self._unasked.get(key, ("", 0.0))
        if uid == claim.metadata.uid:
            return self._clock.monotonic() - since
        self._unasked.pop(key, None)  # another claim of the name
        return 0.0

    def _drivers(self, group: str) -> frozenset[str]:
        """Those that claims are filled for here. Another provisioner fills claims from GA snapshots, but knows no others."""
        return frozenset(self._backends) - (self._elsewhere if group == GA_GROUP else frozenset())

    # --- act ---

    async def _until_done(self, claim: PersistentVolumeClaim, work: Coroutine[Any, Any, None]) -> Requeue | None:
        """A copy that takes long goes on without us. How far it is stands on the claim, which stays held."""
        try:
            await work
        except InProgress as error:
            live = await self._client.find(CLAIMS, claim.metadata.name, claim.metadata.namespace)
            if live is None or live.metadata.uid != claim.metadata.uid:
                return None
            if live.metadata.annotations.get(PROGRESS) != str(error):
                await patch_seen(self._client, CLAIMS, live, {"metadata": {"annotations": {PROGRESS: str(error)}}})
            return Requeue(PROGRESS_SECONDS)
        return None

    async def _make(self, facts: RestoreFacts, request: RestoreRequest) -> None:
        claim, resumed = facts.claim, has_begun(facts.claim)
        secrets = await self._secrets(claim, request)
        request = await self._placed(claim, request)
        if not resumed:
            claim = await self._begin(claim, facts.snapshot)
            if blocker := await self._taken_back(facts):
                await self._release(claim)
                self._record_event(claim, blocker)
                return
        try:
            restored = await self._backends[request.driver].restore(replace(request.restoration, secrets=secrets))
        except InProgress:
            raise
        except (Retryable, Terminal) as error:
            # That this call made nothing does not tell about an earlier one, whose answer was lost: only undo does.
            if isinstance(error, Terminal | NotNow) and not resumed:
                await self._release(claim)
            self._failed(claim, error)
            raise
        await self._provide(replace(facts, claim=claim), request, restored=restored, secrets=secrets)
        note = f"volume {request.restoration.name} was made from VolumeSnapshot {facts.source.namespace}/{facts.source.name}"
        self._record_event(claim, Blocker("Restored", note, waits=True))
        await self._release(claim)

    async def _taken_back(self, facts: RestoreFacts) -> Blocker | None:
        """What was shared is taken back without waiting for claims that nothing was begun for. Whoever does that looks for
        those that were, after the deletion; here the deletion is looked for, after the claim was begun: one of the two sees
        the other."""
        if facts.record is None or not was_shared(facts.record):
            return None
        dialect, source = self._lookups[facts.source.group].dialect, facts.source
        live = await self._client.find(dialect.snapshots, source.name, source.namespace)
        return review(replace(facts, snapshot=dialect.read_snapshot(live) if live is not None else None))

    async def _provide(self, facts: RestoreFacts, request: RestoreRequest, *, restored: Restored, secrets: Secrets) -> None:
        """Writes the PersistentVolume. Where that cannot be, the volume goes again: nothing would tell of it."""
        claim, name = facts.claim, request.restoration.name
        assert facts.storage_class is not None
        made = new_volume(claim, request, storage_class=facts.storage_class, restored=restored, snapshot=facts.source.name)
        try:
            if 0 < restored.size < request.restoration.size:
                raise Impossible(f"the storage system made {restored.size} bytes, {request.restoration.size} were asked for")
            await self._client.create(NEW_VOLUMES, made)
        except Terminal as error:
            found = await self._client.find(PERSISTENT_VOLUMES, name)
            if found is not None and is_for(found, claim):
                return
            await self._discard(request, restored, secrets)
            await self._release(claim)
            if isinstance(error, AlreadyExists):
                error = Terminal(f"PersistentVolume {name} is there already, and was not restored for this claim")
            self._failed(claim, error)
            raise error

    async def _undo(self, claim: PersistentVolumeClaim, request: RestoreRequest) -> None:
        """Only the storage system knows what became of it: asking for it once more gives its handle, to delete it by."""
        secrets = await self._secrets(claim, request)
        request = await self._placed(claim, request)
        try:
            restored = await self._found(request, secrets)
            if restored is not None:
                await self._discard(request, restored, secrets)
        except InProgress:
            raise
        except (Retryable, Terminal) as error:
            self._failed(claim, error)
            raise
        await self._release(claim)

    async def _discard(self, request: RestoreRequest, restored: Restored, secrets: Secrets) -> None:
        """Deletes a volume that no claim gets, unless it is somebody else's: to another provisioner of the driver the name
        means the same volume."""
        found = await self._client.find(PERSISTENT_VOLUMES, request.restoration.name)
        theirs = source_volume_of(found) if found is not None else None
        if theirs is None or theirs.volume.handle != restored.handle:
            await self._backends[request.driver].discard(restored.handle, secrets=secrets)

    async def _found(self, request: RestoreRequest, secrets: Secrets) -> Restored | None:
        """None where it cannot be made: then it was not made before either."""
        try:
            return await self._backends[request.driver].restore(replace(request.restoration, secrets=secrets))
        except Terminal:
            return None

    async def _secrets(self, claim: PersistentVolumeClaim, request: RestoreRequest) -> Secrets:
        try:
            return await read_secrets(self._client, request.secret)
        except (Retryable, Terminal) as error:
            self._failed(claim, error)
            raise

    async def _placed(self, claim: PersistentVolumeClaim, request: RestoreRequest) -> RestoreRequest:
        """The request with the place of the node that a pod of the claim was scheduled to, as the driver sees it."""
        name = request.restoration.node
        node = await self._client.find(NODES, name) if name else None
        csi_node = await self._client.find(CSI_NODES, name) if node is not None else None
        if node is None or csi_node is None:
            return request
        try:
            place = topology_of(node, csi_node, request.driver)
        except NotNow as error:
            self._failed(claim, error)
            raise
        return replace(request, restoration=replace(request.restoration, topologies=(place,) if place else ()))

    async def _release(self, claim: PersistentVolumeClaim) -> None:
        await self._write_finalizers(claim, without_finalizer(claim.metadata, RESTORING))

    async def _begin(self, claim: PersistentVolumeClaim, snapshot: Snapshot | None) -> PersistentVolumeClaim:
        """Which snapshot it was is written down with the finalizer: a later one of the name is another."""
        finalizers = list(with_finalizer(claim.metadata, RESTORING).finalizers)
        uid = snapshot.meta.uid if snapshot is not None else None
        change = {"metadata": {"finalizers": finalizers, "annotations": {RESTORED_FROM_UID: uid}}}
        return await patch_seen(self._client, CLAIMS, claim, change)

    async def _write_finalizers(self, claim: PersistentVolumeClaim, wanted: Meta) -> PersistentVolumeClaim:
        if wanted is claim.metadata:
            return claim
        change: dict[str, Any] = {"finalizers": list(wanted.finalizers)}
        if PROGRESS in claim.metadata.annotations:
            change["annotations"] = {PROGRESS: None}
        return await patch_seen(self._client, CLAIMS, claim, {"metadata": change})

    def _record_event(self, claim: PersistentVolumeClaim, blocker: Blocker) -> None:
        reason = Reason(blocker.reason, action="Restore", type="Normal" if blocker.waits else "Warning")
        self._recorder.record(CLAIMS, claim, reason, note=blocker.message)

    def _failed(self, claim: PersistentVolumeClaim, error: Exception) -> None:
        if isinstance(error, Retryable):
            reason, again = "RestoreRetried", "it is tried again"
        else:
            minutes = int(AFTER_REFUSAL / 60)
            reason, again = (
                "RestoreFailed",
                f"it is tried again when claim, class or snapshot change, or after {minutes} minutes",
            )
        self._record_event(claim, Blocker(reason, f"{error}; {again}"))
