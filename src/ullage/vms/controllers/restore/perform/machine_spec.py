"""The VM that a restore makes, or brings back: as it was, with the new claims, and stopped. Pure.

One that is brought back is left stopped. A new one runs where the backup's did, as Harvester has it, unless the restore says
otherwise; it has no MAC addresses of the one that it was copied from.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from msgspec.structs import replace

from ullage.kube.kinds import Meta
from ullage.kube.objects import Json, merge_patch
from ullage.vms.api.common import KeptObject
from ullage.vms.api.machines import WholeMachine
from ullage.vms.api.restores import VirtualMachineRestore
from ullage.vms.lifecycle import ALWAYS, HALTED
from ullage.vms.model import NO_ROOM, RESTORE_NAME, RESTORED_BY, starts_by_itself, will_run

# Labels by which others find a VM: a new one must not be taken for the old one.
_NAMES_MACHINE: Final = ("harvesterhci.io/vmName", "kubevirt.io/domain", "kubevirt.io/vm", "vm.kubevirt.io/name")
_OLD_CLAIMS: Final = "harvesterhci.io/volumeClaimTemplates"


def restored_spec(kept: Mapping[str, Any], claims: Mapping[str, str]) -> Json:
    """The spec with other claims, by the names of the volumes that they are for. DataVolumes have become claims: their
    templates would make the old ones again."""
    spec: Json = deepcopy(dict(kept))
    inner = spec.get("template", {}).get("spec", {})
    if "volumes" in inner:
        inner["volumes"] = [_volume(one, claims) for one in inner["volumes"]]
    used = {one["dataVolume"].get("name") for one in inner.get("volumes", ()) if one.get("dataVolume")}
    templates = [one for one in spec.pop("dataVolumeTemplates", None) or () if one.get("metadata", {}).get("name") in used]
    if templates:
        spec["dataVolumeTemplates"] = templates
    return _running(spec, wanted=False)


def _running(spec: Json, *, wanted: bool, strategy: str = ALWAYS) -> Json:
    """Said in whichever field the VM has."""
    others = {key: value for key, value in spec.items() if key not in ("running", "runStrategy")}
    if spec.get("running") is None:
        return {**others, "runStrategy": strategy if wanted else HALTED}
    return {**others, "running": wanted}


def _volume(volume: Json, claims: Mapping[str, str]) -> Json:
    claim = claims.get(volume.get("name", ""))
    if claim is None:
        return volume
    source = volume.get("persistentVolumeClaim") or volume.get("dataVolume") or {}
    kept = {key: value for key, value in source.items() if key in {"hotpluggable", "readOnly"}}
    return {"name": volume["name"], "persistentVolumeClaim": {**kept, "claimName": claim}}


def new_machine(restore: VirtualMachineRestore, source: KeptObject, claims: Mapping[str, str]) -> WholeMachine:
    name, old = restore.spec.target.name, source.metadata
    spec = restored_spec(source.spec, claims)
    if will_run(restore, source.spec):
        strategy = source.spec["runStrategy"] if starts_by_itself(source.spec) and source.spec.get("runStrategy") else ALWAYS
        spec = _running(spec, wanted=True, strategy=strategy)
    template = spec.get("template", {})
    if not restore.spec.keep_mac_address:
        for interface in template.get("spec", {}).get("domain", {}).get("devices", {}).get("interfaces") or ():
            interface.pop("macAddress", None)
    meta = template.get("metadata")
    if meta and meta.get("labels"):
        meta["labels"] = _renamed(meta["labels"], old.name, name)
    return WholeMachine(
        metadata=Meta(
            name=name,
            namespace=restore.metadata.namespace,
            labels=_renamed(old.labels, old.name, name),
            annotations={**old.annotations, RESTORED_BY: restore.metadata.uid, RESTORE_NAME: restore.metadata.name},
        ),
        spec=spec,
    )


def runs(machine: WholeMachine) -> bool:
    """Whether it is made to run."""
    return starts_by_itself(machine.spec)


def halted(machine: WholeMachine, why: str) -> WholeMachine:
    """The same VM where there is no room for it to run; `why` is on it, for whoever wonders."""
    meta = replace(machine.metadata, annotations={**machine.metadata.annotations, NO_ROOM: why})
    return replace(machine, metadata=meta, spec=_running(dict(machine.spec), wanted=False))


def _renamed(labels: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    return {key: new if key in _NAMES_MACHINE and value == old else value for key, value in labels.items()}


def change_in_place(
    restore: VirtualMachineRestore, machine: WholeMachine, source: KeptObject, claims: Mapping[str, str]
) -> Json:
    """One merge patch: the VM has all the volumes of the backup after it, or none."""
    annotations: dict[str, str | None] = {RESTORED_BY: restore.metadata.uid}
    if _OLD_CLAIMS in machine.metadata.annotations:
        annotations[_OLD_CLAIMS] = None
    spec = merge_patch(machine.spec, restored_spec(source.spec, claims)) or {}
    return {"metadata": {"annotations": annotations}, "spec": spec}


def is_switched(machine: WholeMachine, restore: VirtualMachineRestore) -> bool:
    """Whether the VM has the claims of this restore."""
    return machine.metadata.annotations.get(RESTORED_BY) == restore.metadata.uid
