"""What longhorn-manager does, on one machine: the Volumes of `longhorn-system` have engines, and data on the host of engines.

A finalizer is put on a Volume before anything of it is made, and taken off when all of it is gone. The Engine object comes
before the data and carries the Volume's uid: what the host has under the name of a volume without one is of an earlier volume,
and goes first. So nothing leaks, and a volume that is made again begins empty, wherever a process was killed.

Being attached is not kept by the host. When its process has died, the look at an engine fails, which shows in the Engine's
status, wakes the reconciler, and has the volume attached again, and again until a look succeeds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from msgspec.structs import replace

from ullage.clock import Clock
from ullage.engines import tickets
from ullage.engines.api import (
    ENGINES,
    FINALIZER,
    RUNNING,
    VOLUME_LABEL,
    VOLUMES,
    CloneStatus,
    Engine,
    EngineSpec,
    EngineStatus,
    Volume,
    VolumeStatus,
    to_bytes,
)
from ullage.engines.client.host import HostClient
from ullage.engines.model import info_of
from ullage.errors import BadInput, Impossible, Retryable, Terminal
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen, patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.objects import is_deleting, is_owned_by, owner_reference, with_finalizer, without_finalizer
from ullage.kube.slices import Wiring
from ullage.standalone.world.controllers.longhorn_volume_clones import Clones
from ullage.standalone.world.longhorn import VOLUME_FINALIZER, clone_state, source_of, volume_key
from ullage.standalone.world.lookup import OF_VOLUME, LonghornLookup, of_persistent_volume
from ullage.standalone.world.model import NODE
from ullage.vms.api.machines import VirtualMachineInstance

# When a Volume of Longhorn is filled and attached, and the Engine that it gets.


def is_filled(volume: Volume) -> bool:
    """Whether it has the data that it is to begin with."""
    return not volume.spec.data_source or clone_state(volume) == "completed"


def wants_attached(volume: Volume, *, used: bool, now: datetime) -> bool:
    """`used`: a pod has it, or another volume is being filled from it. One that is not filled itself is nobody's yet."""
    held = any(tickets.is_valid(one, now) for one in (volume.spec.attachment_tickets or {}).values())
    return is_filled(volume) and (used or held or bool(volume.spec.node_id))


def engine_for(volume: Volume) -> Engine:
    """Whoever has this object knows that what the host has under the volume's name is this volume's."""
    meta = volume.metadata
    owner = owner_reference(VOLUMES, meta)
    return Engine(
        metadata=Meta(
            name=f"{meta.name}-e-0",
            namespace=meta.namespace,
            labels={VOLUME_LABEL: meta.name},
            owner_references=(owner,),
        ),
        spec=EngineSpec(volume_name=meta.name, volume_size=volume.spec.size, node_id=NODE, desire_state="stopped", active=True),
    )


T = TypeVar("T", bound=Object)

ATTACH_AGAIN = 2.0  # seconds, as long as an engine could not be looked at

FAULT = Reason("EngineFault", action="Attach", type="Warning")
NOT_CLONED = Reason("CloneFailed", action="Clone", type="Warning")


class LonghornVolumeController:
    def __init__(
        self, client: Client, lookup: LonghornLookup, host: HostClient, *, clones: Clones, recorder: Recorder, clock: Clock
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._host = host
        self._clones = clones
        self._recorder = recorder
        self._clock = clock
        self.wake: Callable[[Key], None] = lambda key: None  # set by whoever has the queue

    async def reconcile(self, key: Key) -> Requeue | None:
        volume = self._lookup.volumes.get(key)
        try:
            if volume is None:
                await self._gone(key)
            elif is_deleting(volume.metadata):
                await self._end(volume)
            else:
                return await self._keep(volume)
        except (Impossible, BadInput) as error:
            if volume is not None:
                self._recorder.record(VOLUMES, volume, FAULT, note=str(error))
            raise
        except NotFound:  # it went meanwhile
            pass
        return None

    # --- while it stands ---

    async def _keep(self, volume: Volume) -> Requeue | None:
        held = with_finalizer(volume.metadata, VOLUME_FINALIZER)
        if held is not volume.metadata:
            await patch_seen(self._client, VOLUMES, volume, {"metadata": {"finalizers": list(held.finalizers)}})
            return None  # its own change brings it back
        engine = self._engine(volume)
        if engine is None:
            await self._make_engine(volume)
            return None
        if not volume.status.state:
            await self._host.create(volume.metadata.name, size=_size(volume))
            made = replace(volume.status, state="detached", owner_id=NODE, robustness="unknown")
            await self._write_volume(volume, made)
            return None
        if not is_filled(volume):
            await self._fill(volume)
            return None
        now = self._clock.now()
        used = self._lookup.is_used(volume.metadata.name)
        if not wants_attached(volume, used=used, now=now):
            await self._detach(volume, engine)
            return None
        await self._attach(volume, engine, frontend=not tickets.in_maintenance(volume, now))
        end = tickets.next_end(volume, now)
        again = [] if end is None else [end + 1.0]
        if engine.status.snapshots_error:  # where the host dies again before it is looked at, no change of this would tell
            again.append(ATTACH_AGAIN)
        return Requeue(min(again)) if again else None

    def _engine(self, volume: Volume) -> Engine | None:
        """That of this very volume: one of an earlier volume of the name is none."""
        found = self._lookup.engines.by(OF_VOLUME, volume.metadata.name)
        return next((one for one in found if is_owned_by(one.metadata, volume.metadata.uid)), None)

    async def _make_engine(self, volume: Volume) -> None:
        """What an earlier volume of the name left goes first; a volume that had data once keeps it."""
        name = volume.metadata.name
        if not volume.status.state:
            await self._host.delete(name)
        for stray in self._lookup.engines.by(OF_VOLUME, name):
            await self._delete(ENGINES, stray)
        with contextlib.suppress(AlreadyExists):  # the cache is behind: what it will show brings us back
            await self._client.create(ENGINES, engine_for(volume))

    async def _fill(self, volume: Volume) -> None:
        """From the snapshot that its `dataSource` names. A failure is final: what was asked for cannot be had."""
        status, meta = volume.status.clone_status or CloneStatus(), volume.metadata
        if status.state == "failed":
            return
        try:
            source = source_of(volume)
            if source is None:
                return
            origin = await self._client.find(VOLUMES, source.volume, meta.namespace)
            if origin is None or is_deleting(origin.metadata):
                raise BadInput(
                    "spec.dataSource", volume.spec.data_source, f"volume {source.volume} does not exist, or is going"
                )
            begun = CloneStatus(source_volume=source.volume, snapshot=source.snapshot, state="initiated")
            if status.state != "initiated":
                await self._write_volume(volume, replace(volume.status, clone_status=begun))
            elif origin.status.state == "attached" and self._clones.is_done(
                key_of(volume), uid=meta.uid, source=source, over=self.wake
            ):
                await self._write_volume(volume, replace(volume.status, clone_status=replace(begun, state="completed")))
        except (Impossible, BadInput) as error:
            failed = replace(status, state="failed", message=str(error))
            await self._write_volume(volume, replace(volume.status, clone_status=failed))
            self._recorder.record(VOLUMES, volume, NOT_CLONED, note=str(error))

    async def _attach(self, volume: Volume, engine: Engine, *, frontend: bool) -> None:
        """The host is always asked: it may have died and lost what was attached. Others rely on it once it says running."""
        known = await self._host.attach(volume.metadata.name, frontend=frontend)
        engine = await self._desire(engine, "running")
        running = replace(engine.status, current_state=RUNNING, endpoint=self._host.address, current_size=str(known.size))
        await self._write_engine(engine, running)
        attached = replace(volume.status, state="attached", current_node_id=NODE, robustness="healthy")
        await self._write_volume(volume, attached)

    async def _detach(self, volume: Volume, engine: Engine) -> None:
        """Nobody is to rely on it any more before it stops."""
        known = engine.status.snapshots is not None
        if volume.status.state == "detached" and engine.status.current_state == "stopped" and known:
            return
        engine = await self._desire(engine, "stopped")
        await self._write_engine(engine, replace(await self._last_look(engine), current_state="stopped", endpoint=""))
        await self._host.detach(volume.metadata.name)
        detached = replace(volume.status, state="detached", current_node_id="", robustness="unknown")
        await self._write_volume(volume, detached)

    async def _last_look(self, engine: Engine) -> EngineStatus:
        """What it has is written down while somebody can be asked: a snapshot of a detached volume is estimated by it, and what
        was written shortly before the end has not been shown yet. A volume that was never attached has what it was made with:
        nothing, or the data of a snapshot."""
        if engine.status.current_state != RUNNING and engine.status.snapshots is not None:
            return engine.status
        try:
            detached = engine.status.snapshots is None
            entries = (await self._host.poll(engine.spec.volume_name, detached=detached)).entries
        except (Retryable, Terminal):  # it has died, or was detached before
            return engine.status
        return replace(engine.status, snapshots={name: info_of(one) for name, one in entries.items()})

    async def _desire(self, engine: Engine, state: str) -> Engine:
        if engine.spec.desire_state == state:
            return engine
        return await patch_seen(self._client, ENGINES, engine, {"spec": {"desireState": state}})

    # --- while it goes ---

    async def _end(self, volume: Volume) -> None:
        """Its snapshots' controller has the first finalizer: they are gone when that is."""
        meta = volume.metadata
        self._clones.end(key_of(volume))
        if FINALIZER in meta.finalizers or VOLUME_FINALIZER not in meta.finalizers:
            return
        await self._host.delete(meta.name)
        for engine in self._lookup.engines.by(OF_VOLUME, meta.name):
            await self._delete(ENGINES, engine)
        left = without_finalizer(meta, VOLUME_FINALIZER).finalizers
        await patch_seen(self._client, VOLUMES, volume, {"metadata": {"finalizers": list(left) or None}})

    async def _gone(self, key: Key) -> None:
        """An Engine whose Volume somebody has taken away by force: its data goes too."""
        self._clones.end(key)
        engines = self._lookup.engines.by(OF_VOLUME, key.name)
        if engines and await self._client.find(VOLUMES, key.name, key.namespace) is None:
            await self._host.delete(key.name)
            for engine in engines:
                await self._delete(ENGINES, engine)

    # --- the API ---

    async def _write_volume(self, volume: Volume, status: VolumeStatus) -> None:
        await patch_status(self._client, VOLUMES, volume, old=volume.status, new=status)

    async def _write_engine(self, engine: Engine, status: EngineStatus) -> None:
        await patch_status(self._client, ENGINES, engine, old=engine.status, new=status)

    async def _delete(self, kind: Kind[Any], obj: Object) -> None:
        meta = obj.metadata
        with contextlib.suppress(NotFound, Conflict):  # gone, or another by now
            await self._client.delete(kind, meta.name, meta.namespace, uid=meta.uid)


def longhorn_volume_controller(
    wiring: Wiring, lookup: LonghornLookup, host: HostClient, *, recorder: Recorder
) -> Controller[Key]:
    clones = Clones(host)
    wiring.hold(clones)
    manager = LonghornVolumeController(wiring.client, lookup, host, clones=clones, recorder=recorder, clock=wiring.clock)
    storage = lookup.storage
    sources: list[Source[Any, Key]] = [
        Source(lookup.volumes, lookup.of_volume),
        Source(lookup.engines, lambda one: (volume_key(one.spec.volume_name),), when=_matters),
        Source(storage.volumes, of_persistent_volume),
        Source(storage.claims, lookup.of_claim),
        Source(storage.pods, lookup.of_pod),
        Source(storage.instances, lookup.of_instance, when=_uses_otherwise),
    ]
    made = Controller("engine-manager", sources, manager.reconcile, clock=wiring.clock, metrics=wiring.metrics)
    manager.wake = made.queue.add
    return made


def _uses_otherwise(old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> bool:
    """Whether what a VM has, or whether it has it, may differ."""
    return old is None or new is None or (old.spec, old.status.phase) != (new.spec, new.status.phase)


def _matters(old: Engine | None, new: Engine | None) -> bool:
    """What an engine says of its snapshots is not for us, unless it cannot be asked."""
    return old is None or new is None or _concerns(old) != _concerns(new)


def _concerns(engine: Engine) -> tuple[str, str, str, str]:
    status = engine.status
    return engine.metadata.uid, engine.spec.desire_state, status.current_state, status.snapshots_error


def _size(volume: Volume) -> int:
    size = to_bytes(volume.spec.size)
    if size <= 0:
        raise BadInput("spec.size", repr(volume.spec.size), "a number of bytes is allowed")
    return size
