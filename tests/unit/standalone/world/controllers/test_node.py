"""Nodes are made as many as are wanted, said to be ready, and never taken away."""

from __future__ import annotations

from typing import Any

from tests.unit.standalone.world.fake_api import FakeApi
from ullage.clock import SystemClock
from ullage.kube.builtin.core import NODES, Node, NodeSpec, NodeStatus
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.standalone.world.controllers.node import NodeController
from ullage.standalone.world.nodes import node_names

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
DRAIN = {"key": "kubevirt.io/drain", "effect": "NoSchedule"}


async def reconciled(api: FakeApi, name: str, *, count: int = 2) -> dict[str, Any] | None:
    cache = api.wiring().cache(NODES)
    controller = NodeController(api.client, cache, wanted=frozenset(node_names(count)), clock=SystemClock())
    await controller.reconcile(Key("", name))
    return api.objects.get((NODES.name, Key("", name)))


def ready(name: str, *taints: dict[str, str]) -> Node:
    status = NodeStatus(conditions=({"type": "Ready", "status": "True"},))
    return Node(metadata=Meta(name=name, uid=f"uid-{name}"), spec=NodeSpec(taints=taints), status=status)


async def test_one_that_is_wanted_is_made_and_knows_its_name() -> None:
    api = FakeApi()
    made = await reconciled(api, "ullage-2")
    assert made is not None
    assert made["metadata"]["labels"] == {"kubernetes.io/hostname": "ullage-2", "kubernetes.io/os": "linux"}
    assert await reconciled(api, "ullage-3") is None


async def test_a_new_one_is_said_to_be_ready() -> None:
    api = FakeApi()
    api.put(NODES, Node(metadata=Meta(name="ullage", uid="uid-ullage")))
    made = await reconciled(api, "ullage")
    assert made is not None
    assert [(one["type"], one["status"]) for one in made["status"]["conditions"]] == [("Ready", "True")]


async def test_of_the_taints_only_that_of_new_ones_goes() -> None:
    api = FakeApi()
    api.put(NODES, ready("ullage", NOT_READY, DRAIN))
    made = await reconciled(api, "ullage")
    assert made is not None
    assert [one["key"] for one in made["spec"]["taints"]] == ["kubevirt.io/drain"]


async def test_one_of_an_earlier_run_is_played_and_one_of_others_is_left_alone() -> None:
    api = FakeApi()
    api.put(NODES, ready("ullage-7", NOT_READY))
    api.put(NODES, ready("worker", NOT_READY))
    made, other = await reconciled(api, "ullage-7"), await reconciled(api, "worker")
    assert made is not None
    assert other is not None
    assert "taints" not in made["spec"]
    assert [one["key"] for one in other["spec"]["taints"]] == ["node.kubernetes.io/not-ready"]
