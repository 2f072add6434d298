"""Network policies that break their own rules, and what every namespace is told of the server's certificates."""

from __future__ import annotations

from typing import Any

from ..kinds import ROOT_CA
from .case import CONFIGMAPS, MERGE_PATCH, Case, Step

Json = dict[str, Any]
POLICIES = "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies"
PORT = "spec.egress[0].ports[0].endPort"


def policy(**port: Any) -> Json:
    spec = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [port]}]}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"}, "spec": spec}


def refused(name: str, body: Json, fault: str) -> Case:
    message = f'NetworkPolicy.networking.k8s.io "a" is invalid: {PORT}: Invalid value: {fault}'
    return Case(name, "POST", POLICIES, body, expect=(422, "Invalid"), message=message, causes=((PORT, "FieldValueInvalid"),))


CASES = (
    Case(
        "a range of ports is allowed",
        "POST",
        POLICIES,
        policy(port=80, endPort=90),
        expect=(201, ""),
        has={"spec.egress[0].ports[0].endPort": 90},
    ),
    refused("the end of a range needs a port", policy(endPort=90), "90: may not be specified when `port` is not specified"),
    refused(
        "the end of a range needs a number",
        policy(port="web", endPort=90),
        "90: may not be specified when `port` is non-numeric",
    ),
    refused(
        "a range of ports does not end before it begins",
        policy(port=80, endPort=79),
        "80: must be greater than or equal to `port`",
    ),
    refused(
        "the end of a range is a port",
        policy(port=80, endPort=65536),
        "65536: must be between 1 and 65535, inclusive",
    ),
    Case(
        "a namespace is told whose certificates to trust again after somebody changed it",
        "GET",
        f"{CONFIGMAPS}/{ROOT_CA}",
        setup=(
            Step("PATCH", f"{CONFIGMAPS}/{ROOT_CA}", {"data": {"more": "x"}}, MERGE_PATCH),
            Step("GET", f"{CONFIGMAPS}/{ROOT_CA}", until={"data.more": None}),
        ),
        has={"data.more": None},
    ),
    Case(
        "a namespace is told whose certificates to trust again after somebody deleted it",
        "GET",
        f"{CONFIGMAPS}/{ROOT_CA}",
        setup=(
            Step("DELETE", f"{CONFIGMAPS}/{ROOT_CA}"),
            Step("GET", f"{CONFIGMAPS}/{ROOT_CA}", until={"kind": "ConfigMap"}),
        ),
        has={"metadata.name": ROOT_CA},
    ),
)
