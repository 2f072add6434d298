"""Columns of volumes, claims and everything around CSI."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ullage.standalone.apiserver.kinds.strategies.storage.classes import is_default_class, storage_class_of
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.tables.ages import age
from ullage.standalone.apiserver.tables.cells import AGE, NAME, NONE, UNSET, Printer, col, deleting, many, name, text

MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes(modes: list[Any]) -> str:
    return ",".join(short for mode, short in MODES.items() if mode in modes)


def volume(obj: Json, now: datetime) -> list[Any]:
    claim = dig(obj, "spec", "claimRef")
    return [
        name(obj),
        text(obj, "spec", "capacity", "storage", empty="0"),
        access_modes(many(obj, "spec", "accessModes")),
        text(obj, "spec", "persistentVolumeReclaimPolicy"),
        "Terminating" if deleting(obj) else text(obj, "status", "phase"),
        f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else "",
        storage_class_of(obj),
        text(obj, "spec", "volumeAttributesClassName", empty=UNSET),
        text(obj, "status", "reason"),
        age(obj, now),
        text(obj, "spec", "volumeMode", empty=UNSET),
    ]


def claim(obj: Json, now: datetime) -> list[Any]:
    bound = text(obj, "spec", "volumeName")  # without a volume, size and modes are still wishes and are not shown
    return [
        name(obj),
        "Terminating" if deleting(obj) else text(obj, "status", "phase"),
        bound,
        text(obj, "status", "capacity", "storage", empty="0") if bound else "",
        access_modes(many(obj, "status", "accessModes")) if bound else "",
        storage_class_of(obj),
        text(obj, "spec", "volumeAttributesClassName", empty=UNSET),
        age(obj, now),
        text(obj, "spec", "volumeMode", empty=UNSET),
    ]


def storage_class(obj: Json, now: datetime) -> list[Any]:
    return [
        name(obj) + (" (default)" if is_default_class(obj) else ""),
        text(obj, "provisioner"),
        text(obj, "reclaimPolicy", empty="Delete"),
        text(obj, "volumeBindingMode", empty="Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def csi_driver(obj: Json, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    return [
        name(obj),
        bool(spec.get("attachRequired", True)),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        ",".join(text(each, "audience") for each in many(spec, "tokenRequests")) or UNSET,
        bool(spec.get("requiresRepublish")),
        ",".join(many(spec, "volumeLifecycleModes")) or NONE,
        age(obj, now),
    ]


def csi_node(obj: Json, now: datetime) -> list[Any]:
    return [name(obj), len(many(obj, "spec", "drivers")), age(obj, now)]


def attachment(obj: Json, now: datetime) -> list[Any]:
    return [
        name(obj),
        text(obj, "spec", "attacher"),
        text(obj, "spec", "source", "persistentVolumeName"),
        text(obj, "spec", "nodeName"),
        bool(dig(obj, "status", "attached")),
        age(obj, now),
    ]


def attributes_class(obj: Json, now: datetime) -> list[Any]:
    return [name(obj), text(obj, "driverName"), age(obj, now)]


PV, PVC, CLASS = "core.v1.PersistentVolume", "core.v1.PersistentVolumeClaim", "storage.v1.StorageClass"
DRIVER, ATTACHMENT = "storage.v1.CSIDriverSpec#", "storage.v1.VolumeAttachment"

PRINTERS = {
    ("", "persistentvolumes"): Printer(
        (
            NAME,
            col("Capacity", f"{PV}Spec#capacity"),
            col("Access Modes", f"{PV}Spec#accessModes"),
            col("Reclaim Policy", f"{PV}Spec#persistentVolumeReclaimPolicy"),
            col("Status", f"{PV}Status#phase"),
            col("Claim", f"{PV}Spec#claimRef"),
            col("StorageClass", "The volume's storage class"),
            col("VolumeAttributesClass", "The volume's attributes class"),
            col("Reason", f"{PV}Status#reason"),
            AGE,
            col("VolumeMode", f"{PV}Spec#volumeMode", wide=True),
        ),
        volume,
    ),
    ("", "persistentvolumeclaims"): Printer(
        (
            NAME,
            col("Status", f"{PVC}Status#phase"),
            col("Volume", f"{PVC}Spec#volumeName"),
            col("Capacity", f"{PVC}Status#capacity"),
            col("Access Modes", f"{PVC}Status#accessModes"),
            col("StorageClass", "The claim's storage class"),
            col("VolumeAttributesClass", "The claim's attributes class"),
            AGE,
            col("VolumeMode", f"{PVC}Spec#volumeMode", wide=True),
        ),
        claim,
    ),
    ("storage.k8s.io", "storageclasses"): Printer(
        (
            NAME,
            col("Provisioner", f"{CLASS}#provisioner"),
            col("ReclaimPolicy", f"{CLASS}#reclaimPolicy"),
            col("VolumeBindingMode", f"{CLASS}#volumeBindingMode"),
            col("AllowVolumeExpansion", f"{CLASS}#allowVolumeExpansion"),
            AGE,
        ),
        storage_class,
    ),
    ("storage.k8s.io", "csidrivers"): Printer(
        (
            NAME,
            col("AttachRequired", DRIVER + "attachRequired", type="boolean"),
            col("PodInfoOnMount", DRIVER + "podInfoOnMount", type="boolean"),
            col("StorageCapacity", DRIVER + "storageCapacity", type="boolean"),
            col("TokenRequests", DRIVER + "tokenRequests"),
            col("RequiresRepublish", DRIVER + "requiresRepublish", type="boolean"),
            col("Modes", DRIVER + "volumeLifecycleModes"),
            AGE,
        ),
        csi_driver,
    ),
    ("storage.k8s.io", "csinodes"): Printer(
        (NAME, col("Drivers", "How many drivers the node has", type="integer"), AGE), csi_node
    ),
    ("storage.k8s.io", "volumeattachments"): Printer(
        (
            NAME,
            col("Attacher", f"{ATTACHMENT}Spec#attacher", format="name"),
            col("PV", f"{ATTACHMENT}Source#persistentVolumeName"),
            col("Node", f"{ATTACHMENT}Spec#nodeName"),
            col("Attached", f"{ATTACHMENT}Status#attached", type="boolean"),
            AGE,
        ),
        attachment,
    ),
    ("storage.k8s.io", "volumeattributesclasses"): Printer(
        (NAME, col("DriverName", "storage.v1.VolumeAttributesClass#driverName"), AGE), attributes_class
    ),
}
