"""VirtualMachines: gives each an instance while it is to run, takes it away when not, and says how things are.

All that is done follows from the VM and its instance, so this may end at any moment. What somebody asked for is crossed off
only when it can be seen to be done. A VM shows that it starts before it has an instance, and that it has stopped only when
nothing of it is on its way: whoever counts what runs may go by what it shows, also where it is halted in between.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ullage.clock import Clock
from ullage.errors import BadInput
from ullage.kube.backoff import Backoff
from ullage.kube.builtin.apps import CONTROLLER_REVISIONS
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen, patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import BadRequest, Forbidden, Invalid, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import Json, controller_of, is_deleting, is_true, owner_reference, with_finalizer, without_finalizer
from ullage.kube.slices import Wiring
from ullage.standalone.world import calls
from ullage.standalone.world.controllers import virtual_machine_rules as rules
from ullage.standalone.world.controllers.virtual_machine_rules import (
    FINALIZER,
    RESTART_REQUIRED,
    STARTING,
    AlwaysRun,
    Ask,
    CannotStart,
    Hold,
    Plan,
    Release,
    StartInstance,
    StopInstance,
    status_of,
)
from ullage.standalone.world.machines import GENERATION, differs, new_instance, plugged
from ullage.standalone.world.refusals import Refusals
from ullage.vms.api.instance_types import GROUP, VERSION
from ullage.vms.api.machines import (
    INSTANCES,
    VIRTUAL_MACHINES,
    MachineStatus,
    MatchedReference,
    Matcher,
    RevisionReference,
    VirtualMachine,
    VirtualMachineInstance,
)
from ullage.vms.instance_types.reader import FOR_PREFERENCES, FOR_TYPES, NAME_LABEL, Sort, with_instance_type
from ullage.vms.lifecycle import ALWAYS, is_over, run_strategy

# Keeps a copy of the instance type and of the preference that a VM was first seen with, as KubeVirt does. The copy is a
# ControllerRevision that the VM owns, and its name stands in the VM's status. From then on the copy holds: an instance
# type that is edited changes no VM that was there before.


async def with_revisions(client: Client, machine: VirtualMachine) -> MachineStatus:
    """The status of a VM, with the copies of what the VM names, which are there by then. Raises BadInput and NotFound where
    there is nothing to copy."""
    spec, status = machine.spec, machine.status
    return msgspec.structs.replace(
        status,
        instancetype_ref=await _kept(client, machine, FOR_TYPES, spec.instancetype, status.instancetype_ref),
        preference_ref=await _kept(client, machine, FOR_PREFERENCES, spec.preference, status.preference_ref),
    )


async def _kept(
    client: Client, machine: VirtualMachine, sort: Sort[Any], matcher: Matcher | None, held: MatchedReference | None
) -> MatchedReference | None:
    if matcher is None or not matcher.name:
        return None
    if matcher.revision_name:
        return _reference(matcher, matcher.revision_name)
    if held is not None and (held.name, held.kind) == (matcher.name, matcher.kind) and held.controller_revision_ref is not None:
        return held
    kind = sort.kind(matcher)
    body = await calls.read(client, kind, matcher.name, machine.metadata.namespace if kind.namespaced else "")
    copy = revision_of(machine, body)
    await calls.create(client, CONTROLLER_REVISIONS, copy)
    return _reference(matcher, copy["metadata"]["name"])


def revision_of(machine: VirtualMachine, body: Json) -> Json:
    """A copy of an instance type or of a preference, given whole."""
    meta, owner = body["metadata"], machine.metadata
    labels = {
        NAME_LABEL: meta["name"],
        f"{GROUP}/object-generation": str(meta.get("generation", 0)),
        f"{GROUP}/object-kind": body["kind"],
        f"{GROUP}/object-uid": meta["uid"],
        f"{GROUP}/object-version": VERSION,
    }
    kept = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion", "generation") if key in meta}
    name = f"{owner.name}-{meta['name']}-{VERSION}-{meta['uid']}-{meta.get('generation', 0)}"
    owners = [msgspec.to_builtins(owner_reference(VIRTUAL_MACHINES, owner, controller=True))]
    return {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {"name": name, "namespace": owner.namespace, "labels": labels, "ownerReferences": owners},
        "data": {**body, "metadata": kept},
        "revision": 0,
    }


def _reference(matcher: Matcher, revision: str) -> MatchedReference:
    return MatchedReference(name=matcher.name, kind=matcher.kind, controller_revision_ref=RevisionReference(name=revision))


AFTER_REFUSAL: Final = Backoff(first=2.0, cap=60.0)  # of an instance: nothing here tells when there is room again

STARTED: Final = Reason("SuccessfulCreate", action="Create")
STOPPED: Final = Reason("SuccessfulDelete", action="Delete")
NOT_STARTED: Final = Reason("FailedCreate", action="Create", type="Warning")


class VirtualMachineController:
    def __init__(
        self,
        client: Client,
        *,
        machines: Cache[VirtualMachine],
        instances: Cache[VirtualMachineInstance],
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._machines = machines
        self._instances = instances
        self._recorder = recorder
        self._clock = clock
        self._refusals = Refusals(AFTER_REFUSAL)
        self._unseen: set[Key] = set()  # those whose instance was made and is not in the cache yet

    async def reconcile(self, key: Key) -> Requeue | None:
        machine, found = self._machines.get(key), self._instances.get(key)
        if found is not None:
            self._unseen.discard(key)
        if machine is None:
            self._refusals.end(key)
            self._unseen.discard(key)
            return None
        if found is None and await self._is_coming(key):
            return None  # when it is seen, that brings us back
        owner = controller_of(found.metadata) if found is not None else None
        own_instance = found if owner is not None and owner.uid == machine.metadata.uid else None
        try:
            if not is_deleting(machine.metadata) and await self._keeps_revisions(machine):
                return None
            if found is not None and owner is None and not is_deleting(found.metadata) and not is_deleting(machine.metadata):
                await self._adopt(machine, found)
                return None
            plan = rules.plan_machine(machine, own_instance)
            if isinstance(plan, StartInstance) and found is not None and own_instance is None:
                plan = CannotStart(
                    "InstanceExists", f"VirtualMachineInstance {key.name} is there already, and is not of this VM"
                )
            return await self._act(machine, own_instance, plan)
        except NotFound:  # it went meanwhile
            return None

    async def _act(self, machine: VirtualMachine, instance: VirtualMachineInstance | None, plan: Plan) -> Requeue | None:
        """What comes back by its own change is looked at again then."""
        meta = machine.metadata
        match plan:
            case Hold():
                held = with_finalizer(meta, FINALIZER).finalizers
                await patch_seen(self._client, VIRTUAL_MACHINES, machine, {"metadata": {"finalizers": list(held)}})
                return None
            case Release():
                left = without_finalizer(meta, FINALIZER).finalizers
                await patch_seen(self._client, VIRTUAL_MACHINES, machine, {"metadata": {"finalizers": list(left) or None}})
                return None
            case AlwaysRun():
                field = {"runStrategy": ALWAYS} if machine.spec.run_strategy else {"running": True}
                await patch_seen(self._client, VIRTUAL_MACHINES, machine, {"spec": field})
                return None
            case Ask(requests):
                asked = [msgspec.to_builtins(one) for one in requests]
                await patch_seen(
                    self._client, VIRTUAL_MACHINES, machine, {"status": {"stateChangeRequests": asked}}, subresource="status"
                )
                return None
            case StartInstance(paused):
                if await self._announce(machine):
                    return None
                plan = await self._start(machine, paused=paused)
            case StopInstance() if instance is not None:
                await calls.delete(self._client, INSTANCES, instance.metadata)
                note = f"Stopped the virtual machine by deleting the virtual machine instance {instance.metadata.name}"
                self._recorder.record(VIRTUAL_MACHINES, machine, STOPPED, note=note)
        key, now = key_of(machine), self._clock.monotonic()
        if not isinstance(plan, CannotStart):
            self._refusals.end(key)
        await self._write_status(machine, instance, plan)
        refusal = self._refusals.still(key, now, about=meta.generation)
        return Requeue(refusal.until - now) if refusal is not None else None

    async def _is_coming(self, key: Key) -> bool:
        """Whether there is an instance that we made a moment ago, and that the cache does not have yet."""
        if key in self._unseen and await self._client.find(INSTANCES, key.name, key.namespace) is None:
            self._unseen.discard(key)  # it went again, and the cache never had it or has no more of it
        return key in self._unseen

    async def _keeps_revisions(self, machine: VirtualMachine) -> bool:
        """Whether the VM has just been told of the copies of its instance type and its preference. What does not exist cannot
        be copied: the start of the VM says so."""
        try:
            wanted = await with_revisions(self._client, machine)
        except (BadInput, NotFound):
            return False
        return await patch_status(self._client, VIRTUAL_MACHINES, machine, old=machine.status, new=wanted) is not None

    async def _announce(self, machine: VirtualMachine) -> bool:
        """Whether the VM has just been told to show that it starts."""
        status = machine.status
        if status.printable_status == STARTING or self._is_refused(machine):
            return False
        await patch_status(self._client, VIRTUAL_MACHINES, machine, old=status, new=replace(status, printable_status=STARTING))
        return True

    def _is_refused(self, machine: VirtualMachine) -> bool:
        about = machine.metadata.generation
        return self._refusals.still(key_of(machine), self._clock.monotonic(), about=about) is not None

    async def _start(self, machine: VirtualMachine, *, paused: bool) -> Plan:
        """Of the VM as the API has it: most of a template is nothing that we know of. Where somebody refuses the instance it is
        tried again, later and later, and at once where the VM was changed."""
        meta, key = machine.metadata, key_of(machine)
        if refusal := self._refusals.still(key, self._clock.monotonic(), about=meta.generation):
            return CannotStart("FailedCreate", refusal.message)
        body = await calls.read(self._client, VIRTUAL_MACHINES, meta.name, meta.namespace)
        if body["metadata"]["uid"] != meta.uid or body["metadata"].get("generation", 0) != meta.generation:
            return StartInstance(paused)  # the cache is behind: what it will show brings us back
        try:
            body = await with_instance_type(self._client, machine, body, namespace=meta.namespace)
        except BadInput as error:
            self._refusals.add(key, str(error), self._clock.monotonic(), about=meta.generation)
            return CannotStart("FailedCreate", str(error))
        try:
            made = await calls.create(self._client, INSTANCES, new_instance(machine, body, paused=paused))
        except (Forbidden, Invalid, BadRequest) as error:
            message = f"the instance was refused: {error}"
            if message != self._refusals.said(key):
                self._recorder.record(
                    VIRTUAL_MACHINES, machine, NOT_STARTED, note=f"Error creating virtual machine instance: {error}"
                )
            self._refusals.add(key, message, self._clock.monotonic(), about=meta.generation)
            return CannotStart("FailedCreate", message)
        if self._instances.get(key) is None:
            self._unseen.add(key)
        if made:
            note = f"Started the virtual machine by creating the new virtual machine instance {meta.name}"
            self._recorder.record(VIRTUAL_MACHINES, machine, STARTED, note=note)
        return StartInstance(paused)

    async def _adopt(self, machine: VirtualMachine, instance: VirtualMachineInstance) -> None:
        """An instance that nobody controls, of the VM's name: it was left when an earlier VM went without it."""
        owner = msgspec.to_builtins(owner_reference(VIRTUAL_MACHINES, machine.metadata, controller=True))
        others = [msgspec.to_builtins(one) for one in instance.metadata.owner_references]
        await patch_seen(self._client, INSTANCES, instance, {"metadata": {"ownerReferences": [*others, owner]}})

    # --- while it runs ---

    async def _follow_template(self, machine: VirtualMachine, instance: VirtualMachineInstance | None) -> bool:
        """Volumes that may come and go do so at once. Whether anything else was changed, and waits for a restart."""
        if instance is None or is_over(instance) or is_deleting(instance.metadata):
            return False
        meta, generation = machine.metadata, str(machine.metadata.generation)
        if instance.metadata.annotations.get(GENERATION) == generation:
            return False
        body = await calls.read(self._client, VIRTUAL_MACHINES, meta.name, meta.namespace)
        try:
            body = await with_instance_type(self._client, machine, body, namespace=meta.namespace)
        except BadInput:
            return is_true(machine.status.conditions, RESTART_REQUIRED)  # what it would be started with cannot be told
        running = await calls.read(self._client, INSTANCES, meta.name, meta.namespace)
        if change := plugged(body, running):
            await patch_seen(self._client, INSTANCES, instance, change)
            return is_true(machine.status.conditions, RESTART_REQUIRED)  # its change brings us back
        if differs(body, running):
            return True
        told = {"metadata": {"annotations": {GENERATION: generation}}}
        await patch_seen(self._client, INSTANCES, instance, told)
        return False

    async def _write_status(self, machine: VirtualMachine, instance: VirtualMachineInstance | None, plan: Plan) -> None:
        acted = not isinstance(plan, CannotStart)
        status = status_of(
            machine,
            instance,
            plan=plan,
            requests=rules.pending_requests(machine, instance),
            strategy=run_strategy(machine) if acted else machine.status.run_strategy,
            restart_required=await self._follow_template(machine, instance),
            now=self._clock.now(),
        )
        await patch_status(self._client, VIRTUAL_MACHINES, machine, old=machine.status, new=status)


def virtual_machine_controller(
    wiring: Wiring, instances: Cache[VirtualMachineInstance], *, recorder: Recorder
) -> Controller[Key]:
    machines = wiring.cache(VIRTUAL_MACHINES)
    made = VirtualMachineController(
        wiring.client, machines=machines, instances=instances, recorder=recorder, clock=wiring.clock
    )
    sources: list[Source[Any, Key]] = [own(machines), own(instances)]  # an instance has the name of its VM
    return Controller("virtualmachines", sources, made.reconcile, clock=wiring.clock, metrics=wiring.metrics)
