"""The one node that all pods are on. It is always ready: there is nothing in it that could fail."""

from __future__ import annotations

from ullage.clock import Clock
from ullage.kube.builtin.core import NODES, Node
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, own
from ullage.kube.objects import Json
from ullage.kube.slices import Wiring
from ullage.standalone.world import calls
from ullage.standalone.world.model import HOSTNAME, NODE
from ullage.times import timestamp

KEY = Key("", NODE)
NOT_READY = "node.kubernetes.io/not-ready"  # kube-apiserver puts it on every new node


class NodeController:
    def __init__(self, client: Client, node: Node | None, *, clock: Clock) -> None:
        self._client = client
        self._node = node
        self._clock = clock

    async def reconcile(self) -> None:
        node = self._node
        if node is None:
            labels = {HOSTNAME: NODE, "kubernetes.io/os": "linux"}
            await calls.create(
                self._client, NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}}
            )
            return
        if not any(one.get("type") == "Ready" and one.get("status") == "True" for one in node.status.conditions):
            change = {"status": {"conditions": [self._ready()]}}
            await patch_seen(self._client, NODES, node, change, subresource="status")
            return
        kept = [dict(taint) for taint in node.spec.taints if taint.get("key") != NOT_READY]
        if len(kept) < len(node.spec.taints):
            await patch_seen(self._client, NODES, node, {"spec": {"taints": kept or None}})

    def _ready(self) -> Json:
        now = timestamp(self._clock.now())
        said = {"reason": "WorldReady", "message": "this node is played by ullage world; it runs no containers"}
        return {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now, **said}


def node_controller(wiring: Wiring) -> Controller[Key]:
    nodes = wiring.cache(NODES, fields=f"metadata.name={NODE}")

    async def reconcile(key: Key) -> None:
        await NodeController(wiring.client, nodes.get(key), clock=wiring.clock).reconcile()

    made = Controller("node", [own(nodes)], reconcile, workers=1, clock=wiring.clock, metrics=wiring.metrics)
    made.queue.add(KEY)
    return made
