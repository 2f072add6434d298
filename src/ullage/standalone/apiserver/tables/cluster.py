"""Columns of what holds a cluster together: namespaces, nodes, configuration, access, events, flow control."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.tables.ages import UNKNOWN, age, human, since
from ullage.standalone.apiserver.tables.cells import AGE, NAME, NONE, Printer, col, condition, holds, many, name, number, text

ROLE_PREFIX = "node-role.kubernetes.io/"
ROLE_LABEL = "kubernetes.io/role"


def plain(obj: Json, now: datetime) -> list[Any]:
    return [name(obj), age(obj, now)]


def with_text(*path: str) -> Callable[[Json, datetime], list[Any]]:
    """Name, one field, age."""
    return lambda obj, now: [name(obj), text(obj, *path), age(obj, now)]


def config_map(obj: Json, now: datetime) -> list[Any]:
    return [name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


def secret(obj: Json, now: datetime) -> list[Any]:
    return [name(obj), text(obj, "type"), len(obj.get("data") or ()), age(obj, now)]


def node(obj: Json, now: datetime) -> list[Any]:
    info = dig(obj, "status", "nodeInfo")
    kernel, architecture = text(info, "kernelVersion", empty=UNKNOWN), text(info, "architecture")
    return [
        name(obj),
        _node_status(obj),
        _roles(obj),
        age(obj, now),
        text(info, "kubeletVersion"),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        text(info, "osImage", empty=UNKNOWN),
        f"{kernel} ({architecture})" if architecture and kernel != UNKNOWN else kernel,
        text(info, "containerRuntimeVersion", empty=UNKNOWN),
    ]


def _node_status(obj: Json) -> str:
    ready = condition(obj, "Ready")
    status = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if dig(obj, "spec", "unschedulable") else status


def _roles(obj: Json) -> str:
    labels = dig(obj, "metadata", "labels") or {}
    found = {key.removeprefix(ROLE_PREFIX) for key in labels if key.startswith(ROLE_PREFIX)} | {labels.get(ROLE_LABEL, "")}
    return ",".join(sorted(found - {""})) or NONE


def _address(obj: Json, kind: str) -> str:
    return next((each["address"] for each in many(obj, "status", "addresses") if each.get("type") == kind), NONE)


def quota(obj: Json, now: datetime) -> list[Any]:
    hard, used = dig(obj, "status", "hard") or {}, dig(obj, "status", "used") or {}
    shown = {key: f"{key}: {used.get(key, '0')}/{hard[key]}" for key in sorted(hard)}
    requests = ", ".join(each for key, each in shown.items() if not key.startswith("limits."))
    return [name(obj), requests, ", ".join(each for key, each in shown.items() if key.startswith("limits.")), age(obj, now)]


def event(obj: Json, now: datetime) -> list[Any]:
    """Both groups' events are one stored kind; their fields differ in name only."""
    series = obj.get("series")
    first = _either(obj, "firstTimestamp", "deprecatedFirstTimestamp") or obj.get("eventTime")
    last = _either(obj, "lastTimestamp", "deprecatedLastTimestamp") or obj.get("eventTime")
    count = _either(obj, "count", "deprecatedCount") or 1
    if series:
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    about = _either(obj, "involvedObject", "regarding") or {}
    return [
        since(last, now),
        text(obj, "type"),
        text(obj, "reason"),
        "/".join(part for part in (text(about, "kind").lower(), text(about, "name")) if part),
        text(about, "fieldPath"),
        _event_source(obj),
        str(_either(obj, "message", "note") or "").strip(),
        since(first, now),
        count,
        name(obj),
    ]


def _either(obj: Json, one: str, other: str) -> Any:
    return obj.get(one) or obj.get(other)


def _event_source(obj: Json) -> str:
    source = _either(obj, "source", "deprecatedSource") or {}
    component, host = text(source, "component"), text(source, "host")
    if not component:
        component, host = str(_either(obj, "reportingComponent", "reportingController") or ""), text(obj, "reportingInstance")
    return f"{component}, {host}" if host else component


def binding(obj: Json, now: datetime) -> list[Any]:
    who: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for each in many(obj, "subjects"):
        shown = text(each, "name")
        who.setdefault(each.get("kind", ""), []).append(
            f"{text(each, 'namespace')}/{shown}" if each.get("kind") == "ServiceAccount" else shown
        )
    role = f"{text(obj, 'roleRef', 'kind')}/{text(obj, 'roleRef', 'name')}"
    return [name(obj), role, age(obj, now), *(", ".join(who[kind]) for kind in ("User", "Group", "ServiceAccount"))]


def priority_class(obj: Json, now: datetime) -> list[Any]:
    return [
        name(obj),
        number(obj, "value"),
        bool(obj.get("globalDefault")),
        age(obj, now),
        text(obj, "preemptionPolicy", empty="PreemptLowerPriority"),
    ]


def flow_schema(obj: Json, now: datetime) -> list[Any]:
    dangling = condition(obj, "Dangling")
    return [
        name(obj),
        text(obj, "spec", "priorityLevelConfiguration", "name"),
        number(obj, "spec", "matchingPrecedence"),
        text(obj, "spec", "distinguisherMethod", "type", empty=NONE),
        age(obj, now),
        text(dangling, "status", empty="?"),
    ]


def priority_level(obj: Json, now: datetime) -> list[Any]:
    limited = dig(obj, "spec", "limited")
    queuing = dig(limited, "limitResponse", "queuing")
    return [
        name(obj),
        text(obj, "spec", "type"),
        number(limited, "nominalConcurrencyShares") if limited else NONE,
        *(number(queuing, field) if queuing else NONE for field in ("queues", "handSize", "queueLengthLimit")),
        age(obj, now),
    ]


def api_service(obj: Json, now: datetime) -> list[Any]:
    found, service = condition(obj, "Available"), dig(obj, "spec", "service")
    available = text(found, "status", empty="Unknown")
    if found is not None and available != "True":
        available += f" ({text(found, 'reason')})"
    return [
        name(obj),
        f"{text(service, 'namespace')}/{text(service, 'name')}" if service else "Local",
        available,
        age(obj, now),
    ]


def signing_request(obj: Json, now: datetime) -> list[Any]:
    seconds = dig(obj, "spec", "expirationSeconds")
    states = [kind for kind in ("Approved", "Denied", "Failed") if holds(obj, kind)] or ["Pending"]
    if dig(obj, "status", "certificate"):
        states.append("Issued")
    return [
        name(obj),
        age(obj, now),
        text(obj, "spec", "signerName", empty=NONE),
        text(obj, "spec", "username"),
        human(seconds) if seconds is not None else NONE,
        ",".join(states),
    ]


EVENT = "core.v1.Event#"
EVENTS = Printer(
    (
        col("Last Seen", EVENT + "lastTimestamp"),
        col("Type", EVENT + "type"),
        col("Reason", EVENT + "reason"),
        col("Object", EVENT + "involvedObject"),
        col("Subobject", "core.v1.ObjectReference#fieldPath", wide=True),
        col("Source", EVENT + "source", wide=True),
        col("Message", EVENT + "message"),
        col("First Seen", EVENT + "firstTimestamp", wide=True),
        col("Count", EVENT + "count", wide=True),
        col("Name", NAME.description, format="name", wide=True),
    ),
    event,
)


def _binding_columns(what: str) -> Printer:
    extra = (col(title, f"{title} of the {what}", wide=True) for title in ("Users", "Groups", "ServiceAccounts"))
    return Printer((NAME, col("Role", f"The role that the {what} grants"), AGE, *extra), binding)


INFO, FLOW, LEVEL = "core.v1.NodeSystemInfo#", "flowcontrol.v1.FlowSchemaSpec#", "flowcontrol.v1."
RBAC, FLOWS = "rbac.authorization.k8s.io", "flowcontrol.apiserver.k8s.io"

PRINTERS = {
    ("", "configmaps"): Printer((NAME, col("Data", "core.v1.ConfigMap#data"), AGE), config_map),
    ("", "secrets"): Printer((NAME, col("Type", "core.v1.Secret#type"), col("Data", "core.v1.Secret#data"), AGE), secret),
    ("", "serviceaccounts"): Printer((NAME, AGE), plain),
    ("", "namespaces"): Printer((NAME, col("Status", "The state of the namespace"), AGE), with_text("status", "phase")),
    ("", "nodes"): Printer(
        (
            NAME,
            col("Status", "Whether the node takes pods"),
            col("Roles", "What the node's labels say it is for"),
            AGE,
            col("Version", INFO + "kubeletVersion"),
            col("Internal-IP", "core.v1.NodeStatus#addresses", wide=True),
            col("External-IP", "core.v1.NodeStatus#addresses", wide=True),
            col("OS-Image", INFO + "osImage", wide=True),
            col("Kernel-Version", INFO + "kernelVersion", wide=True),
            col("Container-Runtime", INFO + "containerRuntimeVersion", wide=True),
        ),
        node,
    ),
    ("", "resourcequotas"): Printer(
        (NAME, col("Request", "Used and allowed, but for limits"), col("Limit", "Used and allowed of what limits name"), AGE),
        quota,
    ),
    ("", "events"): EVENTS,
    ("events.k8s.io", "events"): EVENTS,
    (RBAC, "rolebindings"): _binding_columns("roleBinding"),
    (RBAC, "clusterrolebindings"): _binding_columns("clusterRoleBinding"),
    ("coordination.k8s.io", "leases"): Printer(
        (NAME, col("Holder", "coordination.v1.LeaseSpec#holderIdentity"), AGE), with_text("spec", "holderIdentity")
    ),
    ("scheduling.k8s.io", "priorityclasses"): Printer(
        (
            NAME,
            col("Value", "scheduling.v1.PriorityClass#value", type="integer"),
            col("Global-Default", "scheduling.v1.PriorityClass#globalDefault", type="boolean"),
            AGE,
            col("PreemptionPolicy", "scheduling.v1.PriorityClass#preemptionPolicy"),
        ),
        priority_class,
    ),
    ("node.k8s.io", "runtimeclasses"): Printer((NAME, col("Handler"), AGE), with_text("handler")),
    (FLOWS, "flowschemas"): Printer(
        (
            NAME,
            col("PriorityLevel", LEVEL + "PriorityLevelConfigurationReference#name"),
            col("MatchingPrecedence", FLOW + "matchingPrecedence"),
            col("DistinguisherMethod", FLOW + "distinguisherMethod"),
            AGE,
            col("MissingPL", "Whether the priority level that it names is missing"),
        ),
        flow_schema,
    ),
    (FLOWS, "prioritylevelconfigurations"): Printer(
        (
            NAME,
            col("Type", LEVEL + "PriorityLevelConfigurationSpec#type"),
            col("NominalConcurrencyShares", LEVEL + "LimitedPriorityLevelConfiguration#nominalConcurrencyShares"),
            col("Queues", LEVEL + "QueuingConfiguration#queues"),
            col("HandSize", LEVEL + "QueuingConfiguration#handSize"),
            col("QueueLengthLimit", LEVEL + "QueuingConfiguration#queueLengthLimit"),
            AGE,
        ),
        priority_level,
    ),
    ("apiregistration.k8s.io", "apiservices"): Printer(
        (NAME, col("Service", "The service behind this API version"), col("Available", "Whether it is available"), AGE),
        api_service,
    ),
    ("certificates.k8s.io", "certificatesigningrequests"): Printer(
        (
            NAME,
            AGE,
            col("SignerName", "certificates.v1.CertificateSigningRequestSpec#signerName"),
            col("Requestor", "certificates.v1.CertificateSigningRequestSpec#username"),
            col("RequestedDuration", "certificates.v1.CertificateSigningRequestSpec#expirationSeconds"),
            col("Condition", "certificates.v1.CertificateSigningRequestStatus#conditions"),
        ),
        signing_request,
    ),
}
