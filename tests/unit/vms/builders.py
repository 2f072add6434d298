"""VMs, backups and restores for tests, as the API has them."""

from __future__ import annotations

from typing import Any

import msgspec

from ullage.kube.kinds import Kind
from ullage.vms.api.machines import VIRTUAL_MACHINES, VirtualMachine

Json = dict[str, Any]
NAMESPACE = "team"


def body(kind: Kind[Any], name: str, **content: Any) -> Json:
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", **content.pop("metadata", {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **content}


def claim_volume(claim: str, name: str = "") -> Json:
    return {"name": name or f"disk-{claim}", "persistentVolumeClaim": {"claimName": claim}}


def data_volume(claim: str) -> Json:
    return {"name": f"disk-{claim}", "dataVolume": {"name": claim}}


IMAGE: Json = {"name": "image", "containerDisk": {"image": "quay.io/x/y"}}
CLOUD_INIT: Json = {"name": "cloudinit", "cloudInitNoCloud": {"userData": "#cloud-config"}}


def machine_body(*volumes: Json, name: str = "db", run_strategy: str = "Always", **content: Any) -> Json:
    template = {"metadata": {"creationTimestamp": None}, "spec": {"domain": {"devices": {}}, "volumes": list(volumes)}}
    return body(VIRTUAL_MACHINES, name, spec={"runStrategy": run_strategy, "template": template}, **content)


def machine(*volumes: Json, **content: Any) -> VirtualMachine:
    return msgspec.json.decode(msgspec.json.encode(machine_body(*volumes, **content)), type=VirtualMachine)
