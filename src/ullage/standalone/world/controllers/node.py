"""The nodes that pods are on. They are always ready: there is nothing in them that could fail."""

from __future__ import annotations

from typing import Final, Protocol

from ullage.clock import Clock
from ullage.kube.builtin.core import NODES, Node
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, own
from ullage.kube.objects import Json
from ullage.kube.slices import Wiring
from ullage.standalone.world import calls
from ullage.standalone.world.model import HOSTNAME
from ullage.standalone.world.nodes import is_played, node_names
from ullage.times import timestamp

NOT_READY: Final = "node.kubernetes.io/not-ready"  # kube-apiserver puts it on every new node


# On a Node: the SHA-256 of its kubelet's certificate, in hex. The embedded API server speaks to no other.
FINGERPRINT: Final = "ullage.io/kubelet-certificate"
ADDRESS: Final = "127.0.0.1"
DIRECT: Final = "ExtendWebSocketsToKubelet"  # kube-apiserver from 1.36 on hands WebSockets through to who declares this


class Endpoint(Protocol):
    """Where the kubelet of all nodes listens. Without a port: nowhere."""

    port: int
    fingerprint: str


class NodeController:
    def __init__(
        self, client: Client, nodes: Cache[Node], *, wanted: frozenset[str], clock: Clock, kubelet: Endpoint | None = None
    ) -> None:
        self._client = client
        self._kubelet = kubelet
        self._nodes = nodes
        self._wanted = wanted
        self._clock = clock

    async def reconcile(self, key: Key) -> None:
        """One that is wanted is made, again where somebody deleted it. Every other one of ours is played while it is there."""
        node = self._nodes.get(key)
        if node is not None:
            await self._keep(node)
        elif key.name in self._wanted:
            labels = {HOSTNAME: key.name, "kubernetes.io/os": "linux"}
            body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": key.name, "labels": labels}}
            await calls.create(self._client, NODES, body)

    async def _keep(self, node: Node) -> None:
        if not is_played(node.metadata.name):
            return
        if not node.is_ready:
            change = {"status": {"conditions": [self._ready()]}}
            await patch_seen(self._client, NODES, node, change, subresource="status")
            return
        if self._kubelet is not None and not self._is_told(node, self._kubelet):
            await self._tell(node, self._kubelet)
            return
        kept = [dict(taint) for taint in node.spec.taints if taint.get("key") != NOT_READY]
        if len(kept) < len(node.spec.taints):
            await patch_seen(self._client, NODES, node, {"spec": {"taints": kept or None}})

    def _is_told(self, node: Node, kubelet: Endpoint) -> bool:
        said = node.status.daemon_endpoints.get("kubeletEndpoint") or {}
        return said.get("Port") == kubelet.port and node.metadata.annotations.get(FINGERPRINT) == kubelet.fingerprint

    async def _tell(self, node: Node, kubelet: Endpoint) -> None:
        """Where commands in its pods are run. The digest first: nobody is spoken to without it."""
        if node.metadata.annotations.get(FINGERPRINT) != kubelet.fingerprint:
            annotations = {FINGERPRINT: kubelet.fingerprint}
            node = await patch_seen(self._client, NODES, node, {"metadata": {"annotations": annotations}})
        status = {
            "addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": node.metadata.name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
            "declaredFeatures": [DIRECT],
        }
        await patch_seen(self._client, NODES, node, {"status": status}, subresource="status")

    def _ready(self) -> Json:
        now = timestamp(self._clock.now())
        said = {"reason": "WorldReady", "message": "this node is played by ullage world; it runs no containers"}
        return {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now, **said}


def node_controller(wiring: Wiring, *, count: int, kubelet: Endpoint | None = None) -> Controller[Key]:
    """At least so many: those of an earlier run that had more stay until somebody deletes them."""
    nodes, names = wiring.cache(NODES), node_names(count)
    found = NodeController(wiring.client, nodes, wanted=frozenset(names), clock=wiring.clock, kubelet=kubelet)
    made = Controller("node", [own(nodes)], found.reconcile, workers=1, clock=wiring.clock, metrics=wiring.metrics)
    for name in names:
        made.queue.add(Key("", name))
    return made
