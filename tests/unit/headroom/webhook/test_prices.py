"""What is stamped follows the KubeVirt object and the quotas of the namespace."""

from __future__ import annotations

from typing import Any

from tests.unit.headroom.builders import TEAM, domain, instance, machine, made
from tests.unit.headroom.scene import INSTANCES, KUBEVIRT, VIRTUAL_MACHINES, Scene, simulated
from ullage.headroom.settings import Settings
from ullage.kube.builtin.core import CORE_QUOTAS
from ullage.vms.api.kubevirts import KUBEVIRTS

MI, CONSOLE = 1 << 20, 60 * 10**6


def kubevirt(scene: Scene, version: str, **configuration: Any) -> None:
    body = {
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
        "spec": {"configuration": configuration},
        "status": {"observedKubeVirtVersion": version},
    }
    scene.server.put(KUBEVIRTS, made(KUBEVIRTS, body))


def core_quota(scene: Scene, **hard: str) -> None:
    body = {"metadata": {"name": "default-x", "namespace": TEAM}, "spec": {"hard": {f"limits.{k}": v for k, v in hard.items()}}}
    scene.server.put(CORE_QUOTAS, made(CORE_QUOTAS, body))


def memory(scene: Scene, name: str) -> int:
    return int(scene.marks(VIRTUAL_MACHINES, name)["cost"]["memory"])


@simulated
async def test_machines_are_charged_by_the_kubevirt_object_as_it_is_when_they_are_made(scene: Scene) -> None:
    scene.settings = Settings()
    async with scene.served():
        kubevirt(scene, "v1.4.0", additionalGuestMemoryOverheadRatio="1.5")
        await scene.seen()
        assert (await scene.submit(VIRTUAL_MACHINES, machine("old"))).allowed
        around = (210 + 8 + 8 + 2 + 16 + 100) * MI
        assert memory(scene, "old") == 1024 * MI + around + int(-(-around // 1000) * 0.5) * 1000 + CONSOLE
        kubevirt(scene, "v1.6.0")
        await scene.seen()
        assert (await scene.submit(VIRTUAL_MACHINES, machine("new"))).allowed
        assert memory(scene, "new") == (1024 + 220 + 8 + 8 + 2 + 32 + 100) * MI + CONSOLE


@simulated
async def test_a_core_quota_on_memory_doubles_what_a_vm_without_a_limit_may_use(scene: Scene) -> None:
    """The instance that KubeVirt makes of the machine takes the same."""
    scene.settings, template = Settings(), domain()
    del template["resources"]
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine("free", template=template))).allowed
        around = (220 + 8 + 8 + 32) * MI + -(-924 * MI // 1000) * 1000 // 512
        assert memory(scene, "free") == 924 * MI + around + CONSOLE
        core_quota(scene, memory="10Gi")
        await scene.seen()
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always", template=template))).allowed
        assert memory(scene, "db") == 2 * (924 * MI + around) + CONSOLE
        body = instance(owner=scene.uid("db"), phase="Running", given=template)
        answer = await scene.submit(INSTANCES, body, user=KUBEVIRT)
        assert answer.allowed, answer.message
        assert scene.marks(INSTANCES, "db") == {"takes": {}, "cost": scene.marks(VIRTUAL_MACHINES, "db")["cost"]}
