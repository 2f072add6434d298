"""The nodes that pods are on. They are always ready: there is nothing in them that could fail."""

from __future__ import annotations

from typing import Final

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


class NodeController:
    def __init__(self, client: Client, nodes: Cache[Node], *, wanted: frozenset[str], clock: Clock) -> None:
        self._client = client
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
        kept = [dict(taint) for taint in node.spec.taints if taint.get("key") != NOT_READY]
        if len(kept) < len(node.spec.taints):
            await patch_seen(self._client, NODES, node, {"spec": {"taints": kept or None}})

    def _ready(self) -> Json:
        now = timestamp(self._clock.now())
        said = {"reason": "WorldReady", "message": "this node is played by ullage world; it runs no containers"}
        return {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now, **said}


def node_controller(wiring: Wiring, *, count: int) -> Controller[Key]:
    """At least so many: those of an earlier run that had more stay until somebody deletes them."""
    nodes, names = wiring.cache(NODES), node_names(count)
    found = NodeController(wiring.client, nodes, wanted=frozenset(names), clock=wiring.clock)
    made = Controller("node", [own(nodes)], found.reconcile, workers=1, clock=wiring.clock, metrics=wiring.metrics)
    for name in names:
        made.queue.add(Key("", name))
    return made
