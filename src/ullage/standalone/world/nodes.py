"""The nodes that the world plays, and which of them a pod gets: as kube-scheduler decides, where nodes here differ. Pure.

Nothing here has a size: a node refuses a pod because of what an administrator said, never because it is full.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ullage.kube.builtin.core import Node, NodeSelector, NodeSelectorRequirement, PersistentVolume, Pod, Toleration
from ullage.standalone.world.model import NODE

_PLAYED: Final = re.compile(rf"{NODE}(-[1-9][0-9]*)?")
_KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"  # the taint of a node that is cordoned


def node_names(count: int) -> tuple[str, ...]:
    """The first one has the name that it had when there was one alone: volumes are bound to it."""
    return (NODE, *(f"{NODE}-{number}" for number in range(2, count + 1)))


def is_played(name: str) -> bool:
    """Whether the world answers for it: also where it was made when there were to be more of them."""
    return _PLAYED.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Placement:
    """The node, or why there is none."""

    node: str = ""
    message: str = ""


def pick_node(
    nodes: Iterable[Node],
    pod: Pod,
    *,
    volumes: Iterable[PersistentVolume] = (),
    load: Mapping[str, int] | None = None,
) -> Placement:
    """The suitable one with the fewest pods, between equals the first. `volumes` are those of the pod's claims, `load` is the
    number of pods of each node."""
    played = sorted((one for one in nodes if is_played(one.metadata.name)), key=_in_order)
    given = tuple(volumes)
    problems = {one.metadata.name: problem_with(one, pod, volumes=given) for one in played}
    suitable = [name for name, problem in problems.items() if not problem]
    if suitable:
        return Placement(min(suitable, key=lambda name: (load or {}).get(name, 0)))
    if not problems:
        return Placement(message="no nodes available to schedule pods")
    counted = sorted(f"{count} {problem}" for problem, count in Counter(problems.values()).items())
    return Placement(message=f"0/{len(problems)} nodes are available: {', '.join(counted)}.")


def problem_with(node: Node, pod: Pod, *, volumes: Iterable[PersistentVolume] = ()) -> str:
    """Why the pod cannot get this node; empty: it can."""
    tolerations = pod.spec.tolerations
    cordon = {"key": UNSCHEDULABLE, "effect": "NoSchedule"}
    if node.spec.unschedulable and not _is_tolerated(cordon, tolerations):
        return "node(s) were unschedulable"
    if kept := [one for one in node.spec.taints if one.get("effect") in _KEEPS_AWAY and not _is_tolerated(one, tolerations)]:
        return f"node(s) had untolerated taint {{{kept[0].get('key')}: {kept[0].get('value') or ''}}}"
    labels = node.metadata.labels
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    wanted = all(labels.get(key) == value for key, value in pod.spec.node_selector.items())
    if not wanted or not _selects(affinity.required if affinity is not None else None, labels):
        return "node(s) didn't match Pod's node affinity/selector"
    bound = (one.spec.node_affinity.required for one in volumes if one.spec.node_affinity is not None)
    if not all(_selects(one, labels) for one in bound):
        return "node(s) didn't match PersistentVolume's node affinity"
    return ""


def _in_order(node: Node) -> tuple[int, str]:
    """The tenth comes after the second."""
    return len(node.metadata.name), node.metadata.name


def _is_tolerated(taint: Mapping[str, Any], tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: Toleration, taint: Mapping[str, Any]) -> bool:
    if toleration.effect not in ("", taint.get("effect")) or toleration.key not in ("", taint.get("key")):
        return False
    return toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == (taint.get("value") or ""))


def _selects(selector: NodeSelector | None, labels: Mapping[str, str]) -> bool:
    """One of the terms has to hold as a whole. A term without expressions selects nothing."""
    if selector is None:
        return True
    terms = (one.match_expressions for one in selector.node_selector_terms)
    return any(bool(term) and all(_holds(one, labels) for one in term) for term in terms)


def _holds(wanted: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    found = labels.get(wanted.key)
    match wanted.operator:
        case "In":
            return found in wanted.values
        case "NotIn":
            return found not in wanted.values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt":
            return _is_beyond(found, wanted)
    return False


def _is_beyond(found: str | None, wanted: NodeSelectorRequirement) -> bool:
    try:
        label, (limit,) = int(found or ""), map(int, wanted.values)
    except ValueError:
        return False
    return label > limit if wanted.operator == "Gt" else label < limit
