"""Columns of services, what stands behind them and what leads to them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.tables.ages import age
from ullage.standalone.apiserver.tables.cells import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Printer,
    col,
    many,
    name,
    pairs,
    selector,
    shortened,
    text,
)


def balancers(obj: Json) -> list[str]:
    """Addresses of a load balancer, each once, in order."""
    found = {text(each, "ip") or text(each, "hostname") for each in many(obj, "status", "loadBalancer", "ingress")}
    return sorted(found - {""})


def service(obj: Json, now: datetime) -> list[Any]:
    return [
        name(obj),
        text(obj, "spec", "type"),
        text(obj, "spec", "clusterIP", empty=NONE),
        _external(obj),
        ",".join(_port(each) for each in many(obj, "spec", "ports")) or NONE,
        age(obj, now),
        pairs(dig(obj, "spec", "selector")),
    ]


def _external(obj: Json) -> str:
    given = [str(ip) for ip in many(obj, "spec", "externalIPs")]
    match text(obj, "spec", "type"):
        case "ExternalName":
            return text(obj, "spec", "externalName")
        case "LoadBalancer":
            return ",".join([*balancers(obj), *given]) or "<pending>"
        case _:
            return ",".join(given) or NONE


def _port(port: Json) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"


def endpoints(obj: Json, now: datetime) -> list[Any]:
    subsets = many(obj, "subsets")
    shown = [
        f"[{ip}]:{port['port']}" if ":" in ip and port else f"{ip}:{port['port']}" if port else ip
        for subset in subsets
        for port in many(subset, "ports") or [None]
        for ip in (text(each, "ip") for each in many(subset, "addresses"))
    ]
    return [name(obj), shortened(shown) if subsets else NONE, age(obj, now)]


def endpoint_slice(obj: Json, now: datetime) -> list[Any]:
    ports = [text(each, "port") or text(each, "name") or "*" for each in many(obj, "ports")]
    addresses = [str(ip) for each in many(obj, "endpoints") for ip in many(each, "addresses")]
    return [name(obj), text(obj, "addressType"), shortened(ports) or UNSET, shortened(addresses) or UNSET, age(obj, now)]


def ingress(obj: Json, now: datetime) -> list[Any]:
    hosts = [text(each, "host") for each in many(obj, "spec", "rules") if each.get("host")]
    return [
        name(obj),
        text(obj, "spec", "ingressClassName", empty=NONE),
        shortened(hosts) or "*",
        ",".join(balancers(obj)),
        "80, 443" if many(obj, "spec", "tls") else "80",
        age(obj, now),
    ]


def ingress_class(obj: Json, now: datetime) -> list[Any]:
    found = dig(obj, "spec", "parameters")
    group = f".{found['apiGroup']}" if found and found.get("apiGroup") else ""
    return [
        name(obj),
        text(obj, "spec", "controller"),
        f"{text(found, 'kind')}{group}/{text(found, 'name')}" if found else NONE,
        age(obj, now),
    ]


def network_policy(obj: Json, now: datetime) -> list[Any]:
    return [name(obj), selector(dig(obj, "spec", "podSelector")), age(obj, now)]


def ip_address(obj: Json, now: datetime) -> list[Any]:
    """One cell more than there are columns: kube-apiserver sends the age, too, and clients ignore it."""
    parent = dig(obj, "spec", "parentRef") or {}
    place = (parent.get("group"), parent.get("resource"), parent.get("namespace"), parent.get("name"))
    return [name(obj), "/".join(str(part) for part in place if part) or NONE, age(obj, now)]


def service_cidr(obj: Json, now: datetime) -> list[Any]:
    return [name(obj), ",".join(many(obj, "spec", "cidrs")), age(obj, now)]


SPEC, SLICE = "core.v1.ServiceSpec#", "discovery.v1.EndpointSlice#"

PRINTERS = {
    ("", "services"): Printer(
        (
            NAME,
            col("Type", SPEC + "type"),
            col("Cluster-IP", SPEC + "clusterIP"),
            col("External-IP", SPEC + "externalIPs"),
            col("Port(s)", SPEC + "ports"),
            AGE,
            col("Selector", SPEC + "selector", wide=True),
        ),
        service,
    ),
    ("", "endpoints"): Printer((NAME, col("Endpoints", "core.v1.Endpoints#subsets"), AGE), endpoints),
    ("discovery.k8s.io", "endpointslices"): Printer(
        (
            NAME,
            col("AddressType", SLICE + "addressType"),
            col("Ports", SLICE + "ports"),
            col("Endpoints", SLICE + "endpoints"),
            AGE,
        ),
        endpoint_slice,
    ),
    ("networking.k8s.io", "ingresses"): Printer(
        (
            NAME,
            col("Class", "The IngressClass that serves it"),
            col("Hosts", "Hosts that its rules name"),
            col("Address", "Addresses of the load balancer"),
            col("Ports", "Open ports"),
            AGE,
        ),
        ingress,
    ),
    ("networking.k8s.io", "ingressclasses"): Printer(
        (NAME, col("Controller", "Who serves this class"), col("Parameters", "An object with more settings"), AGE),
        ingress_class,
    ),
    ("networking.k8s.io", "networkpolicies"): Printer(
        (NAME, col("Pod-Selector", "networking.v1.NetworkPolicySpec#podSelector"), AGE), network_policy
    ),
    ("networking.k8s.io", "ipaddresses"): Printer(
        (NAME, col("ParentRef", "networking.v1.IPAddressSpec#parentRef")), ip_address
    ),
    ("networking.k8s.io", "servicecidrs"): Printer(
        (NAME, col("CIDRs", "networking.v1.ServiceCIDRSpec#cidrs"), AGE), service_cidr
    ),
}
