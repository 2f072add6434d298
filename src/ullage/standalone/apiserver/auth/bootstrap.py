"""The objects that every cluster starts with: created where they are absent, and the policy kept complete from then on."""

from __future__ import annotations

from copy import deepcopy

from ullage.standalone.apiserver.auth.policy_tables import (
    AGGREGATED,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    GATHERED_INTO,
    VERB_SETS,
)
from ullage.standalone.apiserver.auth.rbac import GROUP, aggregate
from ullage.standalone.apiserver.auth.rules import parse_rules, uncovered
from ullage.standalone.apiserver.objects import Json

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_BOOTSTRAPPING = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_GATHER = f"{GROUP}/aggregate-to-"
_PRIORITIES = {
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}


def bootstrap_objects(*, cluster_ip: str = "10.96.0.1", port: int = 6443) -> list[Json]:
    """All of them, whole, in an order in which they can be created. `port` is the one that this server listens on."""
    objects = [namespace(name) for name in NAMESPACES]
    objects += [default_service_account(name) for name in NAMESPACES]
    objects.append(kubernetes_service(cluster_ip, port))
    objects += [_priority_class(name) for name in _PRIORITIES]
    return objects + policy_objects()


def namespace(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def default_service_account(namespace: str) -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}


def kubernetes_service(cluster_ip: str, port: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": cluster_ip,
            "clusterIPs": [cluster_ip],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    }


def policy_objects() -> list[Json]:
    """The ClusterRoles, with what the aggregated ones gather filled in, and their bindings."""
    roles = [_cluster_role(name, lines) for name, lines in CLUSTER_ROLES.items()]
    for name in AGGREGATED:
        selectors = [{"matchLabels": {f"{_GATHER}{name}": "true"}}]
        roles.append({**_cluster_role(name, ()), "aggregationRule": {"clusterRoleSelectors": selectors}})
    gathered = aggregate(roles)
    for role in roles:
        role["rules"] = deepcopy(gathered.get(role["metadata"]["name"], role["rules"]))
    return roles + [_binding(name, subjects) for name, subjects in CLUSTER_ROLE_BINDINGS.items()]


def reconciled(expected: Json, found: Json) -> Json | None:
    """A policy object of ours with what it lacks added, or None where it lacks nothing or asks to be left alone.

    Nothing is ever taken away: rules and subjects that somebody added stay.
    """
    annotations = found["metadata"].get("annotations") or {}
    if annotations.get(AUTOUPDATE) == "false":
        return None
    added: Json = {}
    if expected.get("aggregationRule"):
        if found.get("aggregationRule") is None:
            added["aggregationRule"] = expected["aggregationRule"]
    elif lacking := _lacking_rules(expected, found):
        added["rules"] = [*(found.get("rules") or ()), *lacking]
    subjects = found.get("subjects") or []
    if absent := [subject for subject in expected.get("subjects") or () if subject not in subjects]:
        added["subjects"] = [*subjects, *absent]
    metadata = _completed_metadata(expected["metadata"], found["metadata"])
    if not added and metadata == found["metadata"]:
        return None
    return {**found, "metadata": metadata, **added}


def _lacking_rules(expected: Json, found: Json) -> list[Json]:
    held = parse_rules(found.get("rules"))
    return [rule for rule in expected.get("rules") or () if uncovered(held, parse_rules([rule]))]


def _completed_metadata(expected: Json, found: Json) -> Json:
    completed = dict(found)
    for member in ("labels", "annotations"):
        if expected.get(member):
            completed[member] = {**expected[member], **(found.get(member) or {})}
    return completed


def _metadata(name: str) -> Json:
    labels = dict(_BOOTSTRAPPING)
    if name in GATHERED_INTO:
        labels[f"{_GATHER}{GATHERED_INTO[name]}"] = "true"
    return {"name": name, "labels": labels, "annotations": {AUTOUPDATE: "true"}}


def _cluster_role(name: str, lines: tuple[str, ...]) -> Json:
    rules = [_rule(line) for line in lines]
    return {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": _metadata(name), "rules": rules}


def _rule(line: str) -> Json:
    """One line of the tables, as a PolicyRule."""
    *what, verbs = (part.split() for part in line.split("|"))
    spoken = [verb for word in verbs for verb in VERB_SETS.get(word, (word,))]
    if len(what) == 1:
        return {"nonResourceURLs": what[0], "verbs": spoken}
    groups, things = what
    names = [thing.removeprefix("name=") for thing in things if thing.startswith("name=")]
    rule: Json = {
        "apiGroups": ["" if group == "core" else group for group in groups],
        "resources": [thing for thing in things if not thing.startswith("name=")],
        "verbs": spoken,
    }
    return {**rule, "resourceNames": names} if names else rule


def _binding(name: str, subjects: tuple[str, ...]) -> Json:
    metadata = {"name": name, "labels": dict(_BOOTSTRAPPING), "annotations": {AUTOUPDATE: "true"}}
    binding: Json = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
    }
    if subjects:
        pairs = [subject.split(" ", 1) for subject in subjects]
        binding["subjects"] = [{"kind": kind, "apiGroup": GROUP, "name": who} for kind, who in pairs]
    return binding


def _priority_class(name: str) -> Json:
    value, description = _PRIORITIES[name]
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": description,
        "preemptionPolicy": "PreemptLowerPriority",
    }
