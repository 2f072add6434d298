"""Services: their defaults and ports, and the addresses that somebody must give them.

Addresses and node ports are a shared good, so this module does not choose them: the address is set before `prepare_create` or
after `prepare_update`, and the ports that `lacking_ports` finds take the first of `port_candidates` that is free.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from hashlib import blake2b

from ullage.standalone.apiserver.kinds.metadata import IMMUTABLE, ip_address, label, subdomain, validate_labels
from ullage.standalone.apiserver.kinds.strategies.base import (
    Faults,
    Strategy,
    collect,
    collect_update,
    fill,
    items,
    named,
    one_of,
    part,
    port_name,
    port_number,
    spec_of,
)
from ullage.standalone.apiserver.kinds.strategies.networking import BAD_CIDR, is_cidr
from ullage.standalone.apiserver.kinds.strategies.workloads.pod_checks import PROTOCOLS
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import duplicate, forbidden_field, invalid_value, required

RANGE = ipaddress.ip_network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
EXTERNAL = ("NodePort", "LoadBalancer")


def _default(obj: Json) -> None:
    spec = spec_of(obj)
    fill(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    if spec["sessionAffinity"] == "ClientIP":
        fill(spec, {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}})
    if spec["type"] in EXTERNAL:
        fill(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
        spec["allocateLoadBalancerNodePorts"] = True
    if spec["type"] != "ExternalName":
        fill(spec, {"internalTrafficPolicy": "Cluster"})
    for port in items(spec, "ports"):
        fill(port, {"protocol": "TCP"})
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port")


def _create(obj: Json) -> None:
    fill(obj, {"status": {"loadBalancer": {}}})
    spec = spec_of(obj)
    if address := spec.get("clusterIP"):
        _set_address(spec, address)
    _set_families(spec)


def lacking_ports(obj: Json) -> list[Json]:
    """The ports whose `nodePort` somebody must choose."""
    spec = part(obj, "spec")
    wanted = spec.get("type") == "NodePort" or (
        spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
    )
    return [port for port in items(spec, "ports") if not port.get("nodePort")] if wanted else []


def _set_address(spec: Json, address: str) -> None:
    spec["clusterIP"] = address
    if (spec.get("clusterIPs") or [""])[0] != address:
        spec["clusterIPs"] = [address]


def _set_families(spec: Json) -> None:
    """One family, as the cluster has. A Service without addresses and without pods says nothing against two."""
    if spec.get("type") == "ExternalName":
        return
    if spec.get("clusterIP") == "None" and not spec.get("selector") and not spec.get("ipFamilyPolicy"):
        fill(spec, {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"})
    fill(spec, {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"})


def wants_health_port(spec: Json) -> bool:
    """Whether a load balancer has to ask each node if it has an endpoint."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def port_candidates(seed: str) -> Iterator[int]:
    """Every node port, from a place that the seed decides."""
    start = int.from_bytes(blake2b(seed.encode(), digest_size=8).digest()) % len(NODE_PORTS)
    return (NODE_PORTS[(start + step) % len(NODE_PORTS)] for step in range(len(NODE_PORTS)))


def _update(new: Json, old: Json) -> None:
    """An update that does not mention what was allocated keeps it; a type that has no use for it loses it."""
    spec, before = spec_of(new), part(old, "spec")
    if spec.get("type") == "ExternalName":
        if before.get("type") != "ExternalName":
            for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
                if spec.get(key) == before.get(key):
                    spec.pop(key, None)
    elif not spec.get("clusterIP") and before.get("clusterIP"):
        for key in ("clusterIP", "clusterIPs"):
            if not spec.get(key):
                spec[key] = before[key]
    elif spec.get("clusterIP") != before.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if spec.get("type") != "ExternalName":
        fill(spec, {key: before[key] for key in ("ipFamilies", "ipFamilyPolicy") if key in before})
    _carry_ports(spec, before)
    _set_families(spec)
    _drop_unused(spec, before)


def _drop_unused(spec: Json, before: Json) -> None:
    """What only load balancers have goes with the type, unless the update sets it anew."""
    if wants_health_port(spec):
        if not spec.get("healthCheckNodePort") and wants_health_port(before):
            fill(spec, {"healthCheckNodePort": before.get("healthCheckNodePort")})
    elif spec.get("healthCheckNodePort") == before.get("healthCheckNodePort"):
        spec.pop("healthCheckNodePort", None)
    if spec.get("type") != "LoadBalancer" and before.get("type") == "LoadBalancer":
        for key in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(key) == before.get(key):
                spec.pop(key, None)


def _carry_ports(spec: Json, before: Json) -> None:
    held = {port.get("name") or "": port.get("nodePort") for port in items(before, "ports")}
    for port in items(spec, "ports"):
        mine = held.get(port.get("name") or "")
        if spec.get("type") in EXTERNAL and not port.get("nodePort") and mine:
            port["nodePort"] = mine
        elif spec.get("type") not in EXTERNAL and port.get("nodePort") == mine:
            port.pop("nodePort", None)
    if spec.get("type") not in EXTERNAL and spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
        spec.pop("externalTrafficPolicy", None)


def _faults(obj: Json) -> Faults:
    spec = part(obj, "spec")
    kind, ports = spec.get("type"), items(spec, "ports")
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    yield from _address_faults(spec)
    if kind == "ExternalName":
        yield from named("spec.externalName", (spec.get("externalName") or "").removesuffix("."), subdomain)
    yield from _ports_faults(ports, str(kind))
    if selector := spec.get("selector"):
        yield from validate_labels(selector, "spec.selector")
    yield from one_of("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    yield from one_of("spec.type", kind, TYPES)
    for index, address in enumerate(items(spec, "externalIPs")):
        yield from (invalid_value(f"spec.externalIPs[{index}]", address, fault) for fault in ip_address(address))
    for index, cidr in enumerate(items(spec, "loadBalancerSourceRanges")):
        if not is_cidr(cidr):
            yield invalid_value(f"spec.LoadBalancerSourceRanges[{index}]", cidr, BAD_CIDR)
    yield from _family_faults(spec)
    if (port := spec.get("healthCheckNodePort")) and not wants_health_port(spec):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid_value("spec.healthCheckNodePort", port, detail)
    if (policy := spec.get("externalTrafficPolicy")) and kind not in EXTERNAL and not spec.get("externalIPs"):
        yield invalid_value("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")


def _address_faults(spec: Json) -> Faults:
    kind = spec.get("type")
    if kind == "ExternalName":
        if spec.get("clusterIP") or spec.get("clusterIPs"):
            yield forbidden_field("spec.clusterIPs", "may not be set for ExternalName services")
        return
    addresses = items(spec, "clusterIPs")
    if addresses and not spec.get("clusterIP"):
        yield invalid_value("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified")
    families = [":" in address for address in addresses]
    if len(set(families)) < len(families):
        yield invalid_value("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family")
    for index, address in enumerate(addresses):
        path = f"spec.clusterIPs[{index}]"
        if address == "None":
            if kind in EXTERNAL:
                yield invalid_value(path, address, f"may not be set to 'None' for {kind} services")
            continue
        yield from (invalid_value(path, address, fault) for fault in ip_address(address))


def _family_faults(spec: Json) -> Faults:
    """The cluster has IPv4 alone; a Service without addresses and pods may say what it likes."""
    if spec.get("clusterIP") == "None" and not spec.get("selector"):
        return
    if (policy := spec.get("ipFamilyPolicy")) == "RequireDualStack":
        yield invalid_value("spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services")
    for index, family in enumerate(items(spec, "ipFamilies")):
        if family != "IPv4":
            yield invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")


def _ports_faults(ports: list[Json], kind: str) -> Faults:
    seen_names: set[str] = set()
    seen: set[tuple[object, object]] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name") or ""
        if len(ports) > 1 or name:
            yield from named(f"{path}.name", name, label)
        if name and name in seen_names:
            yield duplicate(f"{path}.name", name)
        seen_names.add(name)
        yield from _port_faults(port, path, kind)
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            shown = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1], "TargetPort": 0, "NodePort": 0}
            yield duplicate(path, shown)
        seen.add(key)


def _port_faults(port: Json, path: str, kind: str) -> Faults:
    yield from port_number(f"{path}.port", port.get("port"))
    yield from one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    target = port.get("targetPort")
    if isinstance(target, str):
        yield from port_name(f"{path}.targetPort", target)
    else:
        yield from port_number(f"{path}.targetPort", target)
    if port.get("nodePort") and kind == "ClusterIP":
        yield forbidden_field(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")


def _update_faults(new: Json, old: Json) -> Faults:
    after, before = part(new, "spec"), part(old, "spec")
    if after.get("type") == "ExternalName" or before.get("type") == "ExternalName":
        return
    was, now = items(before, "clusterIPs"), items(after, "clusterIPs")
    if was and now[:1] != was[:1]:
        yield invalid_value("spec.clusterIPs[0]", now, "may not change once set")
    ports = [spec.get("healthCheckNodePort") for spec in (before, after)]
    if wants_health_port(before) and wants_health_port(after) and ports[0] != ports[1]:
        yield forbidden_field("spec.healthCheckNodePort", IMMUTABLE)


STRATEGIES = {
    ("", "Service"): Strategy(
        name_rule=label,
        unstored_status=True,
        default=_default,
        prepare_create=_create,
        prepare_update=_update,
        validate=collect(_faults),
        validate_update=collect_update(_update_faults),
    ),
}
