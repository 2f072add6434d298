"""Where a volume has to be reachable from, and where it can be: from nodes and classes to drivers, and back. Pure.

A driver that cares names keys (`topology.kubernetes.io/zone`) in the CSINode of every node that it has registered on; the
node's labels have the values.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ullage.errors import NotNow
from ullage.kube.builtin.core import Node
from ullage.kube.builtin.storage import CsiNode, StorageClass, TopologyTerm
from ullage.snapshots.backends.base import Restored, Topology
from ullage.snapshots.source_volume import HOSTNAME

MOST: Final = 1000  # places that a class may allow: more would be a mistake, and a request that no driver takes


def topology_of(node: Node, csi_node: CsiNode, driver: str) -> Topology:
    """Where a driver sees a node; empty where it sees no difference. NotNow while a label is missing."""
    keys = next((one.topology_keys for one in csi_node.spec.drivers if one.name == driver), ())
    labels = node.metadata.labels
    missing = sorted(set(keys) - set(labels))
    if missing:
        raise NotNow(f"node {node.metadata.name} has no label {missing[0]}, by which driver {driver} tells where it is")
    return {key: labels[key] for key in sorted(keys)}


def allowed_topologies(storage_class: StorageClass) -> tuple[Topology, ...]:
    """The places that a class allows, each with one value for each key. Empty: all."""
    places = (place for term in storage_class.allowed_topologies for place in _places(term))
    return tuple(itertools.islice(places, MOST))


def _places(term: TopologyTerm) -> Iterable[Topology]:
    keys = [one.key for one in term.match_label_expressions]
    if keys:
        for chosen in itertools.product(*(one.values for one in term.match_label_expressions)):
            yield dict(zip(keys, chosen, strict=True))


def node_affinity(restored: Restored) -> dict[str, Any] | None:
    """What the PersistentVolume says to the scheduler; None: it can be reached from everywhere."""
    if restored.node:
        return _affinity([{HOSTNAME: restored.node}])
    return _affinity(restored.topologies) if restored.topologies else None


def _affinity(places: Sequence[Topology]) -> dict[str, Any]:
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [place[key]]} for key in sorted(place)]}
        for place in places
    ]
    return {"required": {"nodeSelectorTerms": terms}}
