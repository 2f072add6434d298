"""What the server fills into pods, and into the pods that other kinds will make.

The two are not the same: only a pod itself gets requests from its limits and host ports from its ports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ullage.quantity import Quantity
from ullage.standalone.apiserver.kinds.strategies.base import fill, items, part, round_amounts, spec_of
from ullage.standalone.apiserver.kinds.strategies.storage.claims import default_claim_spec
from ullage.standalone.apiserver.kinds.strategies.storage.volumes import default_source
from ullage.standalone.apiserver.objects import Json

CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
SPEC: Json = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
CONTAINER: Json = {"resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HTTP: Json = {"path": "/", "scheme": "HTTP"}
DEFAULT_MODE: Json = {"defaultMode": 0o644}
NOT_READY_SECONDS = 300
TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def containers(spec: Json) -> Iterator[Json]:
    """Every container of a pod, whatever list it stands in."""
    for name in CONTAINER_LISTS:
        yield from items(spec, name)


def default_template(template: Json) -> None:
    """A pod that another kind will make."""
    if template.get("metadata") is None:
        template["metadata"] = {}
    default_spec(spec_of(template))


def default_pod(obj: Json) -> None:
    spec = spec_of(obj)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    for container in containers(spec):
        resources = part(container, "resources")
        if limits := resources.get("limits"):
            fill(resources, {"requests": limits})
        if spec.get("hostNetwork"):
            for port in items(container, "ports"):
                fill(port, {"hostPort": port.get("containerPort")})
    default_spec(spec)


def default_spec(spec: Json) -> None:
    fill(spec, SPEC)
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers(spec):
        _default_container(container)
    for volume in items(spec, "volumes"):
        _default_volume(volume)


def _default_container(container: Json) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = "Always" if _is_latest(container.get("image") or "") else "IfNotPresent"
    fill(container, CONTAINER)
    for side in ("limits", "requests"):
        round_amounts(container["resources"].get(side))
    for port in items(container, "ports"):
        fill(port, {"protocol": "TCP"})
    for name in PROBES:
        if isinstance(probe := container.get(name), dict):
            _default_probe(probe)
    for hook in ("postStart", "preStop"):
        if (get := part(container, "lifecycle", hook).get("httpGet")) is not None:
            fill(get, HTTP)
    for variable in items(container, "env"):
        if (reference := part(variable, "valueFrom").get("fieldRef")) is not None:
            fill(reference, {"apiVersion": "v1"})


def _is_latest(image: str) -> bool:
    """No tag means `latest`; a digest means one image for ever."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag == "latest" or not (tag or digest)


def _default_probe(probe: Json) -> None:
    for key, value in PROBE.items():
        if not probe.get(key):
            probe[key] = value
    if isinstance(get := probe.get("httpGet"), dict):
        fill(get, HTTP)
    if isinstance(call := probe.get("grpc"), dict) and call.get("service") is None:
        call["service"] = ""


def _default_volume(volume: Json) -> None:
    if not any(value is not None for key, value in volume.items() if key != "name"):
        volume["emptyDir"] = {}
        return
    default_source(volume)
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if isinstance(found := volume.get(source), dict):
            fill(found, DEFAULT_MODE)
    _default_downward(volume.get("downwardAPI"))
    for source in items(volume, "projected", "sources"):
        if isinstance(token := source.get("serviceAccountToken"), dict):
            fill(token, {"expirationSeconds": 3600})
        _default_downward(source.get("downwardAPI"))
    if isinstance(claim := part(volume, "ephemeral").get("volumeClaimTemplate"), dict):
        fill(claim, {"metadata": {}})
        default_claim_spec(spec_of(claim))


def _default_downward(source: Any) -> None:
    for item in items(source, "items"):
        if (reference := item.get("fieldRef")) is not None:
            fill(reference, {"apiVersion": "v1"})


def create_pod(obj: Json) -> None:
    """The first status, and what the server's admission adds. A priority other than 0 comes from its PriorityClass: the
    caller looks that up before."""
    spec = spec_of(obj)
    tolerate_bad_nodes(spec)
    if not spec.get("priorityClassName"):
        fill(spec, {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"})
    fill(obj, {"status": {"phase": "Pending"}})
    obj["status"]["qosClass"] = quality_of_service(spec)


def tolerate_bad_nodes(spec: Json) -> None:
    """A pod survives five minutes on a node that is gone, unless it says otherwise."""
    found = items(spec, "tolerations")
    for key in TOLERATED:
        if not any(entry.get("key") in (key, None, "") and entry.get("effect") in ("NoExecute", None, "") for entry in found):
            found = [*found, _toleration(key)]
    spec["tolerations"] = found


def _toleration(key: str) -> Json:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NOT_READY_SECONDS}


def quality_of_service(spec: Json) -> str:
    """Guaranteed: every container limits CPU and memory and requests just that. BestEffort: none says anything."""
    everyone = [*items(spec, "initContainers"), *items(spec, "containers")]
    asked = [{side: _compute(part(one, "resources", side)) for side in ("requests", "limits")} for one in everyone]
    if not any(one["requests"] or one["limits"] for one in asked):
        return "BestEffort"
    guaranteed = all(len(one["limits"]) == 2 and one["requests"] == one["limits"] for one in asked)
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(values: Json) -> dict[str, Quantity]:
    found = {name: Quantity.parse(values[name]) for name in ("cpu", "memory") if name in values}
    return {name: amount for name, amount in found.items() if amount.nanos}
