"""Endpoints, slices of them, ingresses and network policies."""

from __future__ import annotations

import ipaddress
import re

from ullage.standalone.apiserver.kinds import metadata
from ullage.standalone.apiserver.kinds.strategies.base import (
    Faults,
    Strategy,
    collect,
    collect_update,
    fill,
    immutable,
    items,
    label_selector,
    one_of,
    optional_name,
    part,
    port_name,
    port_number,
    spec_of,
)
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import duplicate, invalid_value, not_supported, required

BAD_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
LOOPBACK = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
_CONTROLLER = re.compile(r"[a-z0-9][-a-z0-9.]*/[^/\s].*")
NETWORKING = "networking.k8s.io"
PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def _endpoints_default(obj: Json) -> None:
    for subset in items(obj, "subsets"):
        for port in items(subset, "ports"):
            fill(port, {"protocol": "TCP"})


def _endpoints_faults(obj: Json) -> Faults:
    for index, subset in enumerate(items(obj, "subsets")):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for at, address in enumerate(items(subset, field)):
                yield from _address_faults(address.get("ip", ""), f"{path}.{field}[{at}].ip")
        for at, port in enumerate(items(subset, "ports")):
            yield from port_number(f"{path}.ports[{at}].port", port.get("port"))


def _address_faults(address: str, path: str) -> Faults:
    faults = metadata.ip_address(address)
    yield from (invalid_value(path, address, fault) for fault in faults)
    if faults:
        yield invalid_value(path, address, "must be a valid IP address")
    elif ipaddress.ip_address(address).is_loopback:
        yield invalid_value(path, address, LOOPBACK)


def _slice_default(obj: Json) -> None:
    for endpoint in items(obj, "endpoints"):
        fill(endpoint, {"conditions": {}})
    for port in items(obj, "ports"):
        fill(port, {"protocol": "TCP"})
        if port.get("name") is None:
            port["name"] = ""


def _slice_faults(obj: Json) -> Faults:
    kind = obj.get("addressType")
    if not kind:
        yield required("addressType")
    else:
        yield from one_of("addressType", kind, ("FQDN", "IPv4", "IPv6"))
    for index, endpoint in enumerate(items(obj, "endpoints")):
        path, addresses = f"endpoints[{index}].addresses", items(endpoint, "addresses")
        if not addresses:
            yield required(path, "must contain at least 1 address")
        if kind in ("IPv4", "IPv6"):
            for at, address in enumerate(addresses):
                yield from (invalid_value(f"{path}[{at}]", address, fault) for fault in metadata.ip_address(address))
    seen: set[str] = set()
    for index, port in enumerate(items(obj, "ports")):
        name = port.get("name") or ""
        if name in seen:
            yield duplicate(f"ports[{index}].name", name)
        seen.add(name)


def _policy_default(obj: Json) -> None:
    spec = spec_of(obj)
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    if spec.get("podSelector") is None:
        spec["podSelector"] = {}
    for side in ("ingress", "egress"):
        for rule in items(spec, side):
            for port in items(rule, "ports"):
                fill(port, {"protocol": "TCP"})


def _policy_faults(obj: Json) -> Faults:
    spec = part(obj, "spec")
    yield from label_selector("spec.podSelector", spec.get("podSelector"))
    for side, field in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(items(spec, side)):
            path = f"spec.{side}[{index}]"
            for at, port in enumerate(items(rule, "ports")):
                yield from _policy_port(port, f"{path}.ports[{at}]")
            for at, peer in enumerate(items(rule, field)):
                yield from _peer_faults(peer, f"{path}.{field}[{at}]")
    for index, kind in enumerate(items(spec, "policyTypes")):
        yield from one_of(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))


def _policy_port(port: Json, path: str) -> Faults:
    yield from one_of(f"{path}.protocol", port.get("protocol"), ("TCP", "UDP", "SCTP"))
    number, last = port.get("port"), port.get("endPort")
    if isinstance(number, str):
        if last is not None:
            yield invalid_value(f"{path}.endPort", last, "may not be specified when `port` is non-numeric")
        yield from port_name(f"{path}.port", number)
    elif number is not None:
        yield from port_number(f"{path}.port", number)
        if last is not None and last < number:
            yield invalid_value(f"{path}.endPort", number, "must be greater than or equal to `port`")
        if last is not None:
            yield from port_number(f"{path}.endPort", last)
    elif last is not None:
        yield invalid_value(f"{path}.endPort", last, "may not be specified when `port` is not specified")


def _peer_faults(peer: Json, path: str) -> Faults:
    kinds = [key for key in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(key) is not None]
    if not kinds:
        yield required(path, "must specify a peer")
    for key in ("podSelector", "namespaceSelector"):
        yield from label_selector(f"{path}.{key}", peer.get(key))
    if isinstance(block := peer.get("ipBlock"), dict):
        cidr = block.get("cidr") or ""
        if not cidr:
            yield required(f"{path}.ipBlock.cidr")
        elif not is_cidr(cidr):
            yield invalid_value(f"{path}.ipBlock.cidr", cidr, BAD_CIDR)


def is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _ingress_faults(obj: Json) -> Faults:
    spec = part(obj, "spec")
    if not spec.get("rules") and not spec.get("defaultBackend"):
        yield invalid_value("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")
    if isinstance(backend := spec.get("defaultBackend"), dict):
        yield from _backend_faults(backend, "spec.defaultBackend")
    for index, rule in enumerate(items(spec, "rules")):
        yield from _rule_faults(rule, f"spec.rules[{index}]")
    yield from optional_name("spec.ingressClassName", spec.get("ingressClassName"))


def _rule_faults(rule: Json, path: str) -> Faults:
    host = rule.get("host") or ""
    yield from optional_name(f"{path}.host", host.removeprefix("*."))
    http = rule.get("http")
    if http is not None and not http.get("paths"):
        yield required(f"{path}.http.paths")
    for at, entry in enumerate(items(http, "paths")):
        place = f"{path}.http.paths[{at}]"
        kind, where = entry.get("pathType"), entry.get("path") or ""
        if kind is None:
            yield required(f"{place}.pathType", "pathType must be specified")
        elif kind not in PATH_TYPES:
            yield not_supported(f"{place}.pathType", kind, PATH_TYPES)
        elif (kind in ("Exact", "Prefix") or where) and not where.startswith("/"):
            yield invalid_value(f"{place}.path", where, "must be an absolute path")
        yield from _backend_faults(part(entry, "backend"), f"{place}.backend")


def _backend_faults(backend: Json, path: str) -> Faults:
    service, resource = backend.get("service"), backend.get("resource")
    if service is None and resource is None:
        yield invalid_value(path, "", "resource or service backend is required")
    elif service is not None:
        if not service.get("name"):
            yield required(f"{path}.service.name")
        if not part(service, "port").get("number") and not part(service, "port").get("name"):
            yield required(path, "port name or number is required")


def _class_faults(obj: Json) -> Faults:
    controller = part(obj, "spec").get("controller") or ""
    if not controller:
        yield required("spec.controller")
    elif not _CONTROLLER.fullmatch(controller):
        yield invalid_value("spec.controller", controller, 'must be a domain-prefixed path (such as "acme.io/foo")')


def _class_default(obj: Json) -> None:
    if isinstance(parameters := part(obj, "spec").get("parameters"), dict):
        fill(parameters, {"scope": "Cluster"})


STRATEGIES = {
    ("", "Endpoints"): Strategy(default=_endpoints_default, validate=collect(_endpoints_faults)),
    ("discovery.k8s.io", "EndpointSlice"): Strategy(
        generation=True,
        counted=("labels",),
        default=_slice_default,
        validate=collect(_slice_faults),
        validate_update=collect_update(immutable("addressType")),
    ),
    (NETWORKING, "NetworkPolicy"): Strategy(generation=True, default=_policy_default, validate=collect(_policy_faults)),
    (NETWORKING, "Ingress"): Strategy(
        generation=True,
        unstored_status=True,
        prepare_create=lambda obj: fill(obj, {"status": {"loadBalancer": {}}}),
        validate=collect(_ingress_faults),
    ),
    (NETWORKING, "IngressClass"): Strategy(
        generation=True,
        default=_class_default,
        validate=collect(_class_faults),
        validate_update=collect_update(immutable("spec.controller")),
    ),
    (NETWORKING, "ServiceCIDR"): Strategy(
        unstored_status=True,
        prepare_create=lambda obj: fill(obj, {"status": {}}),
        validate_update=collect_update(immutable("spec.cidrs")),
    ),
    (NETWORKING, "IPAddress"): Strategy(name_rule=metadata.ip_address),
}
