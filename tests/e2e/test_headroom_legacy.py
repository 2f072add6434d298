"""VMs that ran before Ullage came: each is stamped once, past the limit, however many there are, and then all are counted."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from ullage.clock import SystemClock
from ullage.ledger.accounts import accounts
from ullage.ledger.api import Ledger
from ullage.ledger.book import MOST_GROWN
from ullage.ledger.codec import book_of

from .apart import IS_BORROWED
from .engine_scene import EngineScene, eventually, install_engines
from .snapshot_scene import scene as base_scene

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has hooks of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
Json = dict[str, Any]
STAMP, EXCEEDS = "ullage.io/takes", "harvesterhci.io/exceedsQuota"
LEDGERS = "/apis/ullage.io/v1alpha1/namespaces/ullage-system/ledgers"
COST = (1394 << 20) + 60 * 10**6  # `compute`, and guest-console-log
COUNT = 2 * MOST_GROWN + 100  # more than a ledger takes on of what has happened, twice over


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineScene]:
    """Installed, and nothing runs yet."""
    with base_scene(tmp_path_factory.mktemp("legacy")) as base:
        made = EngineScene(base)
        install_engines(made)
        yield made


def machine(number: int) -> Json:
    domain = {"memory": {"guest": "924Mi"}, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    spec = {"runStrategy": "Always", "template": {"spec": {"domain": domain}}}
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": f"vm-{number:05}"}, "spec": spec}


def test_more_than_a_ledger_takes_on_at_once_are_stamped_and_counted_in_the_end(scene: EngineScene) -> None:
    namespace = scene.base.namespace()
    machines = f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: scene.api.create(machines, machine(number)), range(COUNT)))
    quota = json.dumps({"limit": {"limitsCpu": "4", "limitsMemory": "5Gi"}})
    reserve = json.dumps({"limit": {"limitsCPUPercent": 50, "limitsMemoryPercent": 50}})
    said = {"field.cattle.io/resourceQuota": quota, "harvesterhci.io/maintenanceQuota": reserve}
    with contextlib.ExitStack() as stack:
        stack.enter_context(scene.base.running(scene.command("webhook")))
        # Before anybody has stamped a VM: once it is known that they do not fit, such a share is refused.
        scene.api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"annotations": said}})
        stack.enter_context(scene.base.running(scene.command("controller")))
        eventually("all are counted", lambda: used(scene, namespace) == COUNT * COST, seconds=400, every=1)
        found = scene.api.get(machines).obj["items"]
        stamps = {one["metadata"]["annotations"][STAMP] for one in found}
        assert stamps == {f'{{"compute/vms":{{"cpu":"1015m","memory":"{COST}"}}}}'}
        # Once a request timeout has passed the ledger is exact.
        eventually("the namespace says so", lambda: EXCEEDS in marks(scene, namespace), seconds=180)


def marks(scene: EngineScene, namespace: str) -> Json:
    return dict(scene.api.get(f"/api/v1/namespaces/{namespace}").obj["metadata"].get("annotations") or {})


def used(scene: EngineScene, namespace: str) -> int:
    answer = scene.api.get(f"{LEDGERS}/ns-{namespace}")
    if answer.code != 200:
        return 0
    listed = accounts(book_of(msgspec.convert(answer.obj, Ledger), now=SystemClock().now()))
    return next((one.used.value() for one in listed if (one.name, one.resource) == ("compute/vms", "memory")), 0)
