"""Claims and volumes that break their own rules."""

# ruff: noqa: E501 - messages stand on one line, as they come over the wire

from __future__ import annotations

from typing import Any

from ..kinds import pod
from .case import (
    CLAIMS,
    MERGE_PATCH,
    PODS,
    Case,
    Json,
    Step,
    post,
)


def claim(name: str = "a", **spec: Any) -> Json:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": whole}


def volume(**spec: Any) -> Json:
    whole = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-{ns}"}, "spec": whole}


VOLUMES = "/api/v1/persistentvolumes"
VOLUME = "/api/v1/persistentvolumes/pv-{ns}"
GONE = (Step("DELETE", VOLUME),)

CASES = (
    Case(
        "a claim is pending and keeps the quantity's form",
        "POST",
        CLAIMS,
        claim(resources={"requests": {"storage": "1024Mi"}}),
        expect=(201, ""),
        has={"status.phase": "Pending", "spec.volumeMode": "Filesystem", "spec.resources.requests.storage": "1Gi"},
    ),
    Case(
        "a claim needs access modes",
        "POST",
        CLAIMS,
        claim(accessModes=[]),
        expect=(422, "Invalid"),
        message='PersistentVolumeClaim "a" is invalid: spec.accessModes: Required value: at least 1 access mode is required',
        causes=(("spec.accessModes", "FieldValueRequired"),),
    ),
    Case(
        "a claim needs a size",
        "POST",
        CLAIMS,
        claim(resources={}),
        expect=(422, "Invalid"),
        message='PersistentVolumeClaim "a" is invalid: spec.resources[storage]: Required value',
        causes=(("spec.resources[storage]", "FieldValueRequired"),),
    ),
    Case(
        "a claim of no size is refused",
        "POST",
        CLAIMS,
        claim(resources={"requests": {"storage": "0"}}),
        expect=(422, "Invalid"),
        message='PersistentVolumeClaim "a" is invalid: spec.resources[storage]: Invalid value: "0": must be greater than zero',
        causes=(("spec.resources[storage]", "FieldValueInvalid"),),
    ),
    Case(
        "a claim's size must be a quantity",
        "POST",
        CLAIMS,
        claim(resources={"requests": {"storage": "1 Gi"}}),
        expect=(400, "BadRequest"),
        message="PersistentVolumeClaim in version \"v1\" cannot be handled as a PersistentVolumeClaim: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    Case(
        "an access mode must be known",
        "POST",
        CLAIMS,
        claim(accessModes=["ReadSometimes"]),
        expect=(422, "Invalid"),
        message='PersistentVolumeClaim "a" is invalid: spec.accessModes: Unsupported value: "ReadSometimes": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"',
        causes=(("spec.accessModes", "FieldValueNotSupported"),),
    ),
    Case(
        "a claim's class stays",
        "PATCH",
        f"{CLAIMS}/a",
        {"spec": {"storageClassName": "x"}},
        headers=MERGE_PATCH,
        setup=(post(CLAIMS, claim(storageClassName="y")),),
        expect=(422, "Invalid"),
        message='PersistentVolumeClaim "a" is invalid: spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims…',
        causes=(("spec", "FieldValueForbidden"),),
    ),
    Case(
        "a claim's modes stay",
        "PATCH",
        f"{CLAIMS}/a",
        {"spec": {"accessModes": ["ReadWriteMany"]}},
        headers=MERGE_PATCH,
        setup=(post(CLAIMS, claim()),),
        expect=(422, "Invalid"),
        message='PersistentVolumeClaim "a" is invalid: spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims…',
        causes=(("spec", "FieldValueForbidden"),),
    ),
    Case(
        "a claim that is not bound does not grow",
        "PATCH",
        f"{CLAIMS}/a",
        {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
        headers=MERGE_PATCH,
        setup=(post(CLAIMS, claim()),),
        expect=(422, "Invalid"),
        message='PersistentVolumeClaim "a" is invalid: spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims…',
        causes=(("spec", "FieldValueForbidden"),),
    ),
    Case(
        "a volume needs a source",
        "POST",
        VOLUMES,
        volume(hostPath=None),
        expect=(422, "Invalid"),
        message='PersistentVolume "pv-{ns}" is invalid: spec: Required value: must specify a volume type',
        causes=(("spec", "FieldValueRequired"),),
    ),
    Case(
        "a volume has one source only",
        "POST",
        VOLUMES,
        volume(nfs={"server": "s", "path": "/p"}),
        expect=(422, "Invalid"),
        message='PersistentVolume "pv-{ns}" is invalid: spec.nfs: Forbidden: may not specify more than 1 volume type',
        causes=(("spec.nfs", "FieldValueForbidden"),),
    ),
    Case(
        "a volume needs a capacity",
        "POST",
        VOLUMES,
        volume(capacity={}),
        expect=(422, "Invalid"),
        message='PersistentVolume "pv-{ns}" is invalid: [spec.capacity: Required value, spec.capacity: Unsupported value: …: supported values: "storage"]',
        causes=(
            ("spec.capacity", "FieldValueRequired"),
            ("spec.capacity", "FieldValueNotSupported"),
        ),
    ),
    Case(
        "a volume's source stays",
        "PATCH",
        VOLUME,
        {"spec": {"hostPath": {"path": "/other"}}},
        headers=MERGE_PATCH,
        setup=(post(VOLUMES, volume()),),
        cleanup=GONE,
        expect=(422, "Invalid"),
        message='PersistentVolume "pv-{ns}" is invalid: spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation…',
        causes=(("spec.persistentvolumesource", "FieldValueForbidden"),),
    ),
    Case(
        "a volume gets its defaults",
        "POST",
        VOLUMES,
        volume(),
        cleanup=GONE,
        expect=(201, ""),
        has={
            "spec.persistentVolumeReclaimPolicy": "Retain",
            "spec.volumeMode": "Filesystem",
            "status.phase": "Pending",
            "spec.hostPath.type": "",
        },
    ),
    Case(
        "a reclaim policy must be known",
        "POST",
        VOLUMES,
        volume(persistentVolumeReclaimPolicy="Burn"),
        expect=(422, "Invalid"),
        message='PersistentVolume "pv-{ns}" is invalid: spec.persistentVolumeReclaimPolicy: Unsupported value: "Burn": supported values: "Delete", "Recycle", "Retain"',
        causes=(("spec.persistentVolumeReclaimPolicy", "FieldValueNotSupported"),),
    ),
    Case(
        "a pod may bring a volume of a CSI driver that has no handle",
        "POST",
        PODS,
        {**pod("a"), "spec": {**pod("a")["spec"], "volumes": [{"name": "v", "csi": {"driver": "a.example.com"}}]}},
        expect=(201, ""),
        has={"spec.volumes[0].csi.driver": "a.example.com"},
    ),
    Case(
        "a volume of a CSI driver needs a handle",
        "POST",
        VOLUMES,
        volume(hostPath=None, csi={"driver": "a.example.com"}),
        expect=(422, "Invalid"),
        message='PersistentVolume "pv-{ns}" is invalid: spec.csi.volumeHandle: Required value',
        causes=(("spec.csi.volumeHandle", "FieldValueRequired"),),
    ),
)
