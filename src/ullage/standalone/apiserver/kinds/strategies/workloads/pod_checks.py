"""What is wrong with a pod's spec, wherever it stands."""

from __future__ import annotations

import re

from ullage.quantity import Quantity
from ullage.standalone.apiserver.kinds.metadata import label, validate_labels
from ullage.standalone.apiserver.kinds.strategies.base import (
    Faults,
    items,
    named,
    one_of,
    optional_name,
    part,
    port_name,
    port_number,
)
from ullage.standalone.apiserver.kinds.strategies.quotas import COMPUTE, HUGE, amount, resource_name
from ullage.standalone.apiserver.kinds.strategies.storage.claims import claim_spec_faults
from ullage.standalone.apiserver.kinds.strategies.storage.volumes import source_faults
from ullage.standalone.apiserver.kinds.strategies.workloads.pod_defaults import CONTAINER_LISTS, PROBES
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import duplicate, forbidden_field, invalid_value, not_found_value, required

PROTOCOLS = ("SCTP", "TCP", "UDP")
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
POD_SOURCES = (
    *("emptyDir", "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "secret", "nfs", "iscsi", "glusterfs"),
    *("persistentVolumeClaim", "rbd", "flexVolume", "cinder", "cephfs", "flocker", "downwardAPI", "fc", "azureFile"),
    *("configMap", "vsphereVolume", "quobyte", "azureDisk", "photonPersistentDisk", "projected", "portworxVolume"),
    *("scaleIO", "storageos", "csi", "ephemeral", "image"),
)
# In a pod the sources that name another object need that name.
POD_REQUIRED = {
    "persistentVolumeClaim": "claimName",
    "configMap": "name",
    "secret": "secretName",
    "csi": "driver",
}
_ENVIRONMENT = re.compile(r"[ -<>-~]+")
_ENVIRONMENT_SENTENCE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_MAX_DEADLINE = 2**31 - 1


def template_faults(template: Json, path: str) -> Faults:
    labels = part(template, "metadata").get("labels")
    if labels:
        yield from validate_labels(labels, f"{path}.metadata.labels")
    yield from spec_faults(part(template, "spec"), f"{path}.spec")


def spec_faults(spec: Json, path: str) -> Faults:
    yield from _volume_faults(spec, path)
    yield from _container_faults(spec, path)
    yield from one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), ("Always", "OnFailure", "Never"))
    policies = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    yield from one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy"), policies)
    if selector := spec.get("nodeSelector"):
        yield from validate_labels(selector, f"{path}.nodeSelector")
    yield from optional_name(f"{path}.serviceAccountName", spec.get("serviceAccountName"))
    yield from optional_name(f"{path}.nodeName", spec.get("nodeName"))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE:
        yield invalid_value(f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {_MAX_DEADLINE}, inclusive")
    yield from optional_name(f"{path}.hostname", spec.get("hostname"), label)
    yield from optional_name(f"{path}.subdomain", spec.get("subdomain"), label)
    for index, toleration in enumerate(items(spec, "tolerations")):
        yield from _toleration_faults(toleration, f"{path}.tolerations[{index}]")
    yield from optional_name(f"{path}.priorityClassName", spec.get("priorityClassName"))


def _volume_faults(spec: Json, path: str) -> Faults:
    seen: set[str] = set()
    for index, volume in enumerate(items(spec, "volumes")):
        place, name = f"{path}.volumes[{index}]", volume.get("name") or ""
        yield from source_faults(volume, place, POD_SOURCES)
        for source, key in POD_REQUIRED.items():
            if isinstance(found := volume.get(source), dict) and not found.get(key):
                yield required(f"{place}.{source}.{key}")
        if claim := part(volume, "ephemeral").get("volumeClaimTemplate"):
            yield from claim_spec_faults(part(claim, "spec"), f"{place}.ephemeral.volumeClaimTemplate.spec")
        yield from named(f"{place}.name", name, label)
        if name in seen:
            yield duplicate(f"{place}.name", name)
        seen.add(name)


def _container_faults(spec: Json, path: str) -> Faults:
    volumes = {volume.get("name") for volume in items(spec, "volumes")}
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    seen: set[str] = set()
    # Go checks the containers first, so it is the init container that is the duplicate.
    for list_name in sorted(CONTAINER_LISTS):
        for index, container in enumerate(items(spec, list_name)):
            place, name = f"{path}.{list_name}[{index}]", container.get("name") or ""
            yield from named(f"{place}.name", name, label)
            if name in seen:
                yield duplicate(f"{place}.name", name)
            if name:
                seen.add(name)
            yield from _one_container_faults(container, place)
            yield from _mount_faults(container, place, volumes)


def _one_container_faults(container: Json, path: str) -> Faults:
    image = container.get("image") or ""
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace")
    for index, port in enumerate(items(container, "ports")):
        yield from _port_faults(port, f"{path}.ports[{index}]")
    for index, variable in enumerate(items(container, "env")):
        if not (name := variable.get("name")):
            yield required(f"{path}.env[{index}].name")
        elif not _ENVIRONMENT.fullmatch(name):
            yield invalid_value(f"{path}.env[{index}].name", name, _ENVIRONMENT_SENTENCE)
    for name in PROBES:
        if isinstance(probe := container.get(name), dict):
            yield from _probe_faults(probe, f"{path}.{name}")
    yield from one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), ("Always", "IfNotPresent", "Never"))
    yield from _resource_faults(part(container, "resources"), f"{path}.resources")
    policies = ("File", "FallbackToLogsOnError")
    yield from one_of(f"{path}.terminationMessagePolicy", container.get("terminationMessagePolicy"), policies)


def _mount_faults(container: Json, path: str, volumes: set[str | None]) -> Faults:
    for index, mount in enumerate(items(container, "volumeMounts")):
        place = f"{path}.volumeMounts[{index}]"
        if not (name := mount.get("name") or ""):
            yield required(f"{place}.name")
        if name not in volumes:
            yield not_found_value(f"{place}.name", name)
        if not mount.get("mountPath"):
            yield required(f"{place}.mountPath")


def _port_faults(port: Json, path: str) -> Faults:
    if name := port.get("name"):
        yield from port_name(f"{path}.name", name)
    if not port.get("containerPort"):
        yield required(f"{path}.containerPort")
    else:
        yield from port_number(f"{path}.containerPort", port["containerPort"])
    if port.get("hostPort"):
        yield from port_number(f"{path}.hostPort", port["hostPort"])
    yield from one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)


def _probe_faults(probe: Json, path: str) -> Faults:
    handlers = [name for name in HANDLERS if probe.get(name) is not None]
    if not handlers:
        yield required(path, "must specify a handler type")
    for name in ("httpGet", "tcpSocket", "grpc"):
        port = part(probe, name).get("port")
        if isinstance(port, int):
            yield from port_number(f"{path}.{name}.port", port)
        elif isinstance(port, str):
            yield from port_name(f"{path}.{name}.port", port)


def _resource_faults(resources: Json, path: str) -> Faults:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for side, values in (("limits", limits), ("requests", requests)):
        for name, text in values.items():
            place = f"{path}.{side}[{name}]"
            yield from resource_name(place, name)
            if "/" not in name and name not in COMPUTE and not name.startswith(HUGE):
                yield invalid_value(place, name, "must be a standard resource for containers")
            yield from amount(place, text, whole="/" in name)
    asked = limits.keys() | requests.keys()
    if any("/" in name and name not in limits for name in requests):
        yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    if any(name.startswith(HUGE) for name in asked) and not asked & {"cpu", "memory"}:
        yield forbidden_field(path, "HugePages require cpu or memory")
    for name, text in requests.items():
        if name in limits and Quantity.parse(text) > Quantity.parse(limits[name]):
            yield invalid_value(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limits[name]}")


def _toleration_faults(toleration: Json, path: str) -> Faults:
    operator, key = toleration.get("operator"), toleration.get("key")
    if not key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid_value(f"{path}.operator", operator or "", detail)
    if operator:
        yield from one_of(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect := toleration.get("effect"):
        yield from one_of(f"{path}.effect", effect, ("NoSchedule", "PreferNoSchedule", "NoExecute"))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid_value(f"{path}.effect", effect or "", detail)


def restart_faults(template: Json, path: str) -> Faults:
    """Controllers that keep pods running make pods that restart."""
    yield from one_of(f"{path}.spec.restartPolicy", part(template, "spec").get("restartPolicy"), ("Always",))
