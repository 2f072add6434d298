"""VirtualMachineInstances: their volumes are attached, then they run, or are paused; when they are to go they go at once.

Who made an instance does not matter: that of a VM and one that a person made are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ullage.clock import Clock
from ullage.kube.builtin.core import NODES, Node, PersistentVolume
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen, patch_status
from ullage.kube.controller.controller import Controller, Source, own
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import is_deleting, with_finalizer, without_finalizer
from ullage.kube.slices import Wiring
from ullage.standalone.world.controllers.virtual_machine_instance import rules
from ullage.standalone.world.controllers.virtual_machine_instance.rules import ClaimState, InstanceFacts
from ullage.standalone.world.longhorn import handle_of, volume_key
from ullage.standalone.world.lookup import BY_HANDLE, LonghornLookup, StorageLookup
from ullage.standalone.world.machines import INSTANCE_FINALIZER
from ullage.standalone.world.model import NODE
from ullage.vms.api.machines import INSTANCES, VirtualMachineInstance
from ullage.vms.lifecycle import is_over

STARTED: Final = Reason("Started", action="Starting")
STOPPED: Final = Reason("Stopped", action="Stopping")


class InstanceController:
    def __init__(
        self,
        client: Client,
        storage: StorageLookup,
        *,
        is_attached: Callable[[PersistentVolume], bool],
        nodes: Cache[Node],
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._storage = storage
        self._is_attached = is_attached
        self._nodes = nodes
        self._recorder = recorder
        self._clock = clock

    async def reconcile(self, key: Key) -> None:
        instance = self._storage.instances.get(key)
        if instance is None:
            return
        try:
            if is_deleting(instance.metadata):
                await self._end(instance)
            elif not is_over(instance):
                await self._keep(instance)
        except NotFound:  # it went meanwhile
            return

    async def _keep(self, instance: VirtualMachineInstance) -> None:
        held = with_finalizer(instance.metadata, INSTANCE_FINALIZER)
        if held is not instance.metadata:
            await patch_seen(self._client, INSTANCES, instance, {"metadata": {"finalizers": list(held.finalizers)}})
            return  # its own change brings it back
        claims = {one.claim: self._claim_state(instance, one.claim) for one in instance.spec.volumes if one.claim}
        facts = InstanceFacts(instance=instance, claims=claims, node=self._nodes.get(Key("", NODE)))
        status = rules.status_of(facts, node=NODE, now=self._clock.now())
        written = await patch_status(self._client, INSTANCES, instance, old=instance.status, new=status)
        if written is not None and status.phase == "Running" != instance.status.phase:
            self._recorder.record(INSTANCES, instance, STARTED, note="VirtualMachineInstance started.")

    async def _end(self, instance: VirtualMachineInstance) -> None:
        if INSTANCE_FINALIZER not in instance.metadata.finalizers:
            return
        if not is_over(instance):
            now = rules.ended(instance, now=self._clock.now())
            await patch_status(self._client, INSTANCES, instance, old=instance.status, new=now)
            self._recorder.record(INSTANCES, instance, STOPPED, note="The VirtualMachineInstance was shut down.")
            return  # its own change brings it back
        left = without_finalizer(instance.metadata, INSTANCE_FINALIZER).finalizers
        await patch_seen(self._client, INSTANCES, instance, {"metadata": {"finalizers": list(left) or None}})

    def _claim_state(self, instance: VirtualMachineInstance, name: str) -> ClaimState:
        claim = self._storage.claims.get(Key(instance.metadata.namespace, name))
        if claim is None:
            return ClaimState()
        volume = self._storage.volumes.get(Key("", claim.spec.volume_name)) if claim.spec.volume_name else None
        return ClaimState(claim, attached=volume is not None and self._is_attached(volume))


def instance_controller(
    wiring: Wiring, storage: StorageLookup, longhorn: LonghornLookup | None, *, recorder: Recorder
) -> Controller[Key]:
    """Without `longhorn` nobody attaches volumes of engines, and those that name them wait."""

    def is_attached(volume: PersistentVolume) -> bool:
        handle = handle_of(volume)
        if not handle:
            return True  # a directory is always there
        found = longhorn.volumes.get(volume_key(handle)) if longhorn is not None else None
        return found is not None and found.status.state == "attached"

    def of_volume(volume: PersistentVolume) -> Iterable[Key]:
        claim = volume.spec.claim_ref
        return [key_of(one) for one in storage.instances_of(claim.key)] if claim is not None else ()

    nodes = wiring.cache(NODES, fields=f"metadata.name={NODE}")
    made = InstanceController(
        wiring.client, storage, is_attached=is_attached, nodes=nodes, recorder=recorder, clock=wiring.clock
    )
    sources: list[Source[Any, Key]] = [
        own(storage.instances),
        Source(storage.claims, lambda claim: [key_of(one) for one in storage.instances_of(key_of(claim))]),
        Source(storage.volumes, of_volume),
        Source(nodes, lambda node: [key_of(one) for one in storage.instances.items() if not one.status.node_name]),
    ]
    if longhorn is not None:
        sources.append(
            Source(
                longhorn.volumes,
                lambda one: [key for volume in storage.volumes.by(BY_HANDLE, one.metadata.name) for key in of_volume(volume)],
                when=lambda old, new: old is None or new is None or old.status.state != new.status.state,
            )
        )
    return Controller("virtualmachineinstances", sources, made.reconcile, clock=wiring.clock, metrics=wiring.metrics)
