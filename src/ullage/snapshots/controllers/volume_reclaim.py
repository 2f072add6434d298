"""Deletes the volumes of restored claims that are gone, as each PersistentVolume's reclaim policy says.

The volume first, the PersistentVolume last: as long as there is one, the other tells of it. Only what we made is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Any, Final

from ullage.clock import Clock, SystemClock
from ullage.errors import Retryable, Terminal
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import ObjectClient
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting, without_finalizer
from ullage.snapshots.backends.base import Backend, Held
from ullage.snapshots.data_source import volume_name
from ullage.snapshots.lookup import VolumeLookup
from ullage.snapshots.restored_volume import FINALIZER, driver_of, handle_of, is_ours, secret_of
from ullage.snapshots.secrets import read_secrets

# What becomes of a restored volume once its claim is gone.


class Fate(Enum):
    """What becomes of a volume."""

    STAY = auto()
    DISCARD = auto()  # the volume is deleted, then the PersistentVolume
    LET_GO = auto()  # somebody deleted the PersistentVolume, and wants the volume kept


def fate_of(volume: PersistentVolume, *, claimed: bool) -> Fate:
    """While its claim lives a volume stays, whoever deletes its PersistentVolume. So does one without a claim's uid: an
    administrator has freed it, or keeps it for another claim."""
    if claimed:
        return Fate.STAY
    ref, deleting = volume.spec.claim_ref, is_deleting(volume.metadata)
    had_claim = ref is not None and bool(ref.uid)
    if volume.spec.persistent_volume_reclaim_policy == "Delete":
        return Fate.DISCARD if had_claim or deleting else Fate.STAY
    return Fate.LET_GO if deleting else Fate.STAY


AFTER_REFUSAL: Final = 1800.0  # seconds: a Secret or the driver may have been mended, and nobody watches these
DELETE_FAILED: Final = Reason("VolumeDeleteFailed", action="Restore", type="Warning")
HELD: Final = Reason("VolumeHeld", action="Restore", type="Warning")


class Reclaimer:
    """The controller of PersistentVolumes that `claim/restore` wrote."""

    def __init__(
        self,
        client: ObjectClient,
        volumes: VolumeLookup,
        *,
        backends: Mapping[str, Backend],
        recorder: EventRecorder,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._client = client
        self._volumes = volumes
        self._backends = backends
        self._recorder = recorder

    def controller(self, *, metrics: KubeMetrics | None = None, more: Iterable[Source[Any, Key]] = ()) -> Controller[Key]:
        """`more` wakes it too: what holds volumes, where it can be watched."""
        return Controller(
            "restored-volumes",
            [*sources(self._volumes), *more],
            self.reconcile,
            clock=self._clock,
            metrics=metrics,
            after_terminal=AFTER_REFUSAL,
        )

    async def reconcile(self, key: Key) -> Requeue | None:
        seen = self._volumes.volumes.get(key)
        if seen is None or not is_ours(seen) or driver_of(seen) not in self._backends or self._seen_claimed(seen):
            return None
        # Policy and claim may have been changed to save it a moment ago, and what is deleted does not come back.
        volume = await self._client.find(PERSISTENT_VOLUMES, key.name)
        if volume is None or volume.metadata.uid != seen.metadata.uid or not is_ours(volume):
            return None
        fate = fate_of(volume, claimed=await self._claimed(volume))
        if fate is Fate.DISCARD:
            await self._discard(volume)
        if fate is not Fate.STAY:
            await self._release(volume)
        return None

    def _seen_claimed(self, volume: PersistentVolume) -> bool:
        ref = volume.spec.claim_ref
        claim = self._volumes.claims.get(Key(ref.namespace, ref.name)) if ref else None
        return ref is not None and claim is not None and claim.metadata.uid == ref.uid

    async def _claimed(self, volume: PersistentVolume) -> bool:
        """By the claim's uid. That it is gone is only believed of the API itself."""
        ref = volume.spec.claim_ref
        if ref is None or not ref.uid:
            return False
        live = await self._client.find(CLAIMS, ref.name, ref.namespace)
        return live is not None and live.metadata.uid == ref.uid

    async def _discard(self, volume: PersistentVolume) -> None:
        meta = volume.metadata
        try:
            secrets = await read_secrets(self._client, secret_of(volume))
            await self._backends[driver_of(volume)].discard(handle_of(volume), secrets=secrets)
        except Held as error:
            await self._report(volume, HELD, f"{error}; it goes when they are deleted")
            raise
        except (Retryable, Terminal) as error:
            again = "" if isinstance(error, Retryable) else f" when it changes, or after {int(AFTER_REFUSAL / 60)} minutes"
            keeping = f"to leave the data, delete the PersistentVolume and take finalizer {FINALIZER} off it"
            way_out = "" if isinstance(error, Retryable) else f"; {keeping}"
            await self._report(volume, DELETE_FAILED, f"{error}; it is tried again{again}{way_out}")
            raise
        if not is_deleting(meta):
            await self._client.delete(PERSISTENT_VOLUMES, meta.name, uid=meta.uid)

    async def _report(self, volume: PersistentVolume, reason: Reason, note: str) -> None:
        """In an Event, and in the PersistentVolume's status, which `kubectl get` and `describe` show."""
        self._recorder.record(PERSISTENT_VOLUMES, volume, reason, note=note)
        phase = "Failed" if reason is DELETE_FAILED else volume.status.phase
        if (volume.status.phase, volume.status.message) != (phase, note):
            status = {"status": {"phase": phase, "reason": reason.name, "message": note}}
            await patch_seen(self._client, PERSISTENT_VOLUMES, volume, status, subresource="status")

    async def _release(self, volume: PersistentVolume) -> None:
        """The deletion may have been written since: nothing but the uid is demanded, and only our finalizer goes."""
        live = await self._client.find(PERSISTENT_VOLUMES, volume.metadata.name)
        if live is None or live.metadata.uid != volume.metadata.uid or FINALIZER not in live.metadata.finalizers:
            return
        wanted = without_finalizer(live.metadata, FINALIZER)
        try:
            await patch_seen(self._client, PERSISTENT_VOLUMES, live, {"metadata": {"finalizers": list(wanted.finalizers)}})
        except NotFound:
            return


def sources(volumes: VolumeLookup) -> list[Source[Any, Key]]:
    """A volume is looked at when it changes, and when its claim has gone."""

    def own(volume: PersistentVolume) -> Iterable[Key]:
        return (key_of(volume),) if is_ours(volume) else ()

    def of_claim(claim: PersistentVolumeClaim) -> Iterable[Key]:
        return (Key("", volume_name(claim)),)

    return [Source(volumes.volumes, own), Source(volumes.claims, of_claim, when=lambda old, new: new is None)]
