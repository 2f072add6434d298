"""What the world's controllers of VMs and of their instances have in common: names, and what instances consist of. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ullage.kube.objects import Json, owner_reference
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES, MachineVolume, VirtualMachine
from ullage.vms.lifecycle import PAUSED

INSTANCE_FINALIZER: Final = "kubevirt.io/foregroundDeleteVirtualMachine"
GENERATION: Final = "kubevirt.io/vm-generation"  # of the VM whose template the instance has

# Conditions of an instance that does not run yet, and their reasons.
SYNCHRONIZED, NO_CLAIM, NOT_CREATED = "Synchronized", "FailedPvcNotFound", "FailedCreate"
SCHEDULED, UNSCHEDULABLE = "PodScheduled", "Unschedulable"
PROVISIONING, UNBOUND = "Provisioning", "WaitingForVolumeBinding"


def is_hotplugged(volume: MachineVolume) -> bool:
    """Whether it may come and go while the VM runs."""
    return any(one is not None and one.hotpluggable for one in (volume.persistent_volume_claim, volume.data_volume))


# --- whole bodies: what is in a template is the user's, most of it nothing that we know of ---------------------------


def new_instance(machine: VirtualMachine, body: Json, *, paused: bool) -> Json:
    """The instance of a VM whose whole body is given."""
    template = part(part(body, "spec"), "template")
    meta, spec = part(template, "metadata"), part(template, "spec")
    annotations = {**(meta.get("annotations") or {}), GENERATION: str(machine.metadata.generation)}
    return {
        "apiVersion": INSTANCES.api_version,
        "kind": INSTANCES.kind,
        "metadata": {
            "name": machine.metadata.name,
            "namespace": machine.metadata.namespace,
            "labels": meta.get("labels") or {},
            "annotations": annotations,
            "finalizers": [INSTANCE_FINALIZER],
            "ownerReferences": [owner_reference(VIRTUAL_MACHINES, machine.metadata, controller=True)],
        },
        "spec": {**spec, "startStrategy": PAUSED} if paused else spec,
    }


def plugged(machine: Json, instance: Json) -> Json | None:
    """The change to an instance that brings it the volumes which may come and go; None where it has them."""
    template, spec = part(part(part(machine, "spec"), "template"), "spec"), part(instance, "spec")
    wanted, had = _hotplugged(template), _hotplugged(spec)
    if wanted == had:
        return None
    moved = set(wanted) | set(had)
    fixed = [one for one in _volumes(spec) if one.get("name") not in moved]
    disks = [one for one in _disks(spec) if one.get("name") not in moved]
    added = [one for one in _disks(template) if one.get("name") in wanted]
    return {"spec": {"volumes": [*fixed, *wanted.values()], "domain": {"devices": {"disks": [*disks, *added]}}}}


def differs(machine: Json, instance: Json) -> bool:
    """Whether anything else of the template was changed since the instance was made of it."""
    template = part(part(part(machine, "spec"), "template"), "spec")
    return _fixed(template) != _fixed(part(instance, "spec"))


def fixed_claims(spec: Json) -> list[str]:
    """The claims of volumes that stay as long as the instance does."""
    moved = set(_hotplugged(spec))
    sources = (
        part(one, "persistentVolumeClaim").get("claimName") or part(one, "dataVolume").get("name")
        for one in _volumes(spec)
        if one.get("name") not in moved
    )
    return list(dict.fromkeys(str(one) for one in sources if one))


def _fixed(spec: Json) -> Json:
    moved = set(_hotplugged(spec))
    rest = {key: value for key, value in spec.items() if key not in ("volumes", "domain", "startStrategy")}
    domain = dict(part(spec, "domain"))
    devices = dict(part(domain, "devices"))
    devices["disks"] = [one for one in _disks(spec) if one.get("name") not in moved]
    domain["devices"] = devices
    return {**rest, "domain": domain, "volumes": [one for one in _volumes(spec) if one.get("name") not in moved]}


def _hotplugged(spec: Json) -> dict[str, Json]:
    """By name."""
    found: dict[str, Json] = {}
    for volume in _volumes(spec):
        sources = (volume.get("persistentVolumeClaim"), volume.get("dataVolume"))
        if any(isinstance(one, dict) and one.get("hotpluggable") is True for one in sources):
            found[str(volume.get("name"))] = volume
    return found


def _volumes(spec: Json) -> Iterator[Json]:
    return dicts(spec.get("volumes"))


def _disks(spec: Json) -> Iterator[Json]:
    return dicts(part(part(spec, "domain"), "devices").get("disks"))


def dicts(found: Any) -> Iterator[Json]:
    return (one for one in found if isinstance(one, dict)) if isinstance(found, list) else iter(())


def part(body: Json, name: str) -> Json:
    """What another product defines may be anything, as far as the API server is concerned."""
    found = body.get(name)
    return found if isinstance(found, dict) else {}
