"""VirtualMachineInstances: each gets a pod, its volumes are attached, then it runs, or is paused; when it is to go it goes at
once, and its pods before it: no quota of pods is taken up by what is over.

Who made an instance does not matter: that of a VM and one that a person made are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from ullage.clock import Clock
from ullage.errors import BadInput
from ullage.kube.backoff import Backoff
from ullage.kube.builtin.core import CORE_QUOTAS, PODS, CoreQuota, PersistentVolume, Pod
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen, patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source, own, owned
from ullage.kube.errors import BadRequest, Forbidden, Invalid, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import is_deleting, is_owned_by, with_finalizer, without_finalizer
from ullage.kube.slices import Wiring
from ullage.standalone.world import calls
from ullage.standalone.world.controllers import virtual_machine_instance_rules as rules
from ullage.standalone.world.controllers.virtual_machine_instance_rules import ClaimState, InstanceFacts
from ullage.standalone.world.launchers import CREATED_BY, current_launcher, new_launcher
from ullage.standalone.world.longhorn import handle_of, volume_key
from ullage.standalone.world.lookup import BY_CONTROLLER, BY_HANDLE, LonghornLookup, StorageLookup
from ullage.standalone.world.machines import INSTANCE_FINALIZER
from ullage.standalone.world.pod_owner import CREATED
from ullage.standalone.world.quotas import has_more_room
from ullage.standalone.world.refusals import Refusal, Refusals
from ullage.vms.api.machines import INSTANCES, VirtualMachineInstance
from ullage.vms.lifecycle import is_over
from ullage.vms.prices import Prices

STARTED: Final = Reason("Started", action="Starting")
STOPPED: Final = Reason("Stopped", action="Stopping")
LOST: Final = Reason("Stopped", action="Stopping", type="Warning")
REFUSED: Final = Reason("FailedCreate", action="Create", type="Warning")
AFTER_REFUSAL: Final = Backoff(first=1.0, cap=60.0)


class InstanceController:
    def __init__(
        self,
        client: Client,
        storage: StorageLookup,
        *,
        is_attached: Callable[[PersistentVolume], bool],
        prices: Prices,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._storage = storage
        self._is_attached = is_attached
        self._prices = prices
        self._recorder = recorder
        self._clock = clock
        self._refusals = Refusals(AFTER_REFUSAL)

    async def reconcile(self, key: Key) -> Requeue | None:
        instance = self._storage.instances.get(key)
        if instance is None or is_deleting(instance.metadata) or is_over(instance):
            self._refusals.end(key)
        if instance is None:
            return None
        try:
            if is_deleting(instance.metadata):
                await self._end(instance)
                return None
            if is_over(instance):
                await self._delete_pods(instance)
                return None
            return await self._keep(instance)
        except NotFound:  # it went meanwhile
            return None

    async def _keep(self, instance: VirtualMachineInstance) -> Requeue | None:
        held = with_finalizer(instance.metadata, INSTANCE_FINALIZER)
        if held is not instance.metadata:
            await patch_seen(self._client, INSTANCES, instance, {"metadata": {"finalizers": list(held.finalizers)}})
            return None  # its own change brings it back
        claims = {one.claim: self._claim_state(instance, one.claim) for one in instance.spec.volumes if one.claim}
        launcher = current_launcher(instance, self._storage.pods.by(BY_CONTROLLER, instance.metadata.uid))
        facts = InstanceFacts(instance=instance, claims=claims, launcher=launcher)
        refusal: Refusal | None = None
        if rules.wants_launcher(facts):
            if instance.status.active_pods:
                await self._look_for_pod(instance)
                return None
            refusal = await self._launch(instance)
        if refusal is not None:
            facts = replace(facts, refusal=refusal.message)
        status = rules.status_of(facts, now=self._clock.now())
        written = await patch_status(self._client, INSTANCES, instance, old=instance.status, new=status)
        if written is not None and status.phase == "Running" != instance.status.phase:
            self._recorder.record(INSTANCES, instance, STARTED, note="VirtualMachineInstance started.")
        return Requeue(max(0.0, refusal.until - self._clock.monotonic())) if refusal is not None else None

    def ask_again(self, quota: CoreQuota) -> list[Key]:
        """Those of a namespace that were refused a pod: a quota there has more room, so nobody waits any longer."""
        return self._refusals.hurry(lambda key: key.namespace == quota.metadata.namespace)

    # --- its pod ---

    async def _launch(self, instance: VirtualMachineInstance) -> Refusal | None:
        """Makes its pod. Where somebody refuses that, a quota mostly, it is tried again, later and later."""
        key, meta = key_of(instance), instance.metadata
        if refusal := self._refusals.still(key, self._clock.monotonic()):
            return refusal
        body = await calls.read(self._client, INSTANCES, meta.name, meta.namespace)
        if body["metadata"]["uid"] != meta.uid:
            return None  # the cache is behind: what it will show brings us back
        try:
            pod = new_launcher(body, pricing=self._prices.of(meta.namespace), node=instance.status.node_name)
            if await calls.create(self._client, PODS, pod):
                self._recorder.record(
                    INSTANCES, instance, CREATED, note=f"Created virtual machine pod {pod['metadata']['name']}"
                )
        except (Forbidden, Invalid, BadRequest, BadInput) as error:
            message = f"failed to create virtual machine pod: {error}"
            if message != self._refusals.said(key):
                self._recorder.record(INSTANCES, instance, REFUSED, note=f"Error creating pod: {error}")
            return self._refusals.add(key, message, self._clock.monotonic())
        self._refusals.end(key)
        return None

    async def _look_for_pod(self, instance: VirtualMachineInstance) -> None:
        """It runs in a pod that we do not see. That it is gone is believed only of the API: a cache may be behind."""
        if current_launcher(instance, await self._pods(instance)) is None:
            failed = rules.ended(instance, now=self._clock.now(), phase="Failed")
            await patch_status(self._client, INSTANCES, instance, old=instance.status, new=failed)
            self._recorder.record(INSTANCES, instance, LOST, note="The pod that the VirtualMachineInstance ran in is gone.")

    async def _delete_pods(self, instance: VirtualMachineInstance) -> None:
        for pod in await self._pods(instance):
            await calls.delete(self._client, PODS, pod.metadata, at_once=True)

    async def _pods(self, instance: VirtualMachineInstance) -> list[Pod]:
        """All that were made for it, as the API has them."""
        uid = instance.metadata.uid
        found = await self._client.list(PODS, instance.metadata.namespace, labels=f"{CREATED_BY}={uid}")
        return [one for one in found.items if is_owned_by(one.metadata, uid)]

    # --- its end ---

    async def _end(self, instance: VirtualMachineInstance) -> None:
        if INSTANCE_FINALIZER not in instance.metadata.finalizers:
            return
        await self._delete_pods(instance)
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
    wiring: Wiring, storage: StorageLookup, longhorn: LonghornLookup | None, *, prices: Prices, recorder: Recorder
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

    made = InstanceController(
        wiring.client, storage, is_attached=is_attached, prices=prices, recorder=recorder, clock=wiring.clock
    )
    sources: list[Source[Any, Key]] = [
        own(storage.instances),
        Source(storage.claims, lambda claim: [key_of(one) for one in storage.instances_of(key_of(claim))]),
        Source(storage.volumes, of_volume),
        owned(storage.pods, by=INSTANCES),
        Source(wiring.cache(CORE_QUOTAS), made.ask_again, when=has_more_room),
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
