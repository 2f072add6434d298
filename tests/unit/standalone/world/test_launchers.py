"""The pod of an instance: what it is called, what it may take, where it goes; and which of several is the one."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from tests.unit.standalone.world.builders import pod
from tests.unit.standalone.world.vm_builders import INSTANCE_UID, instance
from ullage.errors import BadInput
from ullage.kube.builtin.core import Pod
from ullage.kube.kinds import Meta
from ullage.standalone.world import launchers
from ullage.standalone.world.launchers import current_launcher, launcher_name, targets_of
from ullage.vms.launcher.settings import NamespaceRules
from ullage.vms.launcher.versions import MI
from ullage.vms.pricing import Pricing, PricingChoice

new_launcher = partial(launchers.new_launcher, pricing=Pricing(None))
MIGRATION = Meta(name="move", namespace="shop", uid="uid-of-the-migration")


def body(labels: dict[str, str] | None = None, *, limits: Any = None, **spec: Any) -> dict[str, Any]:
    domain = {"resources": {"limits": limits or {"cpu": "1", "memory": "1Gi"}}, "memory": {"guest": "924Mi"}}
    meta = {"name": "db", "namespace": "shop", "uid": INSTANCE_UID, "labels": labels or {}}
    return {"metadata": meta, "spec": {"domain": domain, **spec}}


def test_it_is_named_as_kubevirt_names_it_and_is_its_instances() -> None:
    made = new_launcher(body({"app": "db", "kubevirt.io": "mine", "kubevirt.io/migrationJobUID": "none"}))
    meta = made["metadata"]
    assert meta["name"].startswith("virt-launcher-db-")
    assert len(meta["name"]) == len("virt-launcher-db-") + 5
    assert meta["labels"] == {
        "app": "db",
        "kubevirt.io": "virt-launcher",
        "kubevirt.io/created-by": INSTANCE_UID,
        "vm.kubevirt.io/name": "db",
    }
    assert meta["annotations"] == {"kubevirt.io/domain": "db"}
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("VirtualMachineInstance", INSTANCE_UID, True)


def test_made_twice_it_has_one_name_and_a_target_another() -> None:
    assert new_launcher(body()) == new_launcher(body())
    target = new_launcher(body(), target_of=MIGRATION)["metadata"]
    assert target["name"] == launcher_name("db", MIGRATION.uid) != new_launcher(body())["metadata"]["name"]
    assert target["labels"]["kubevirt.io/migrationJobUID"] == MIGRATION.uid
    assert target["annotations"] == {"kubevirt.io/domain": "db", "kubevirt.io/migrationJobName": "move"}


def test_a_long_name_is_cut_and_stays_a_name() -> None:
    long = "a" * 200
    assert len(launcher_name(long, "1")) == 63
    assert launcher_name(long, "1") != launcher_name(long, "2")
    found = body()
    found["metadata"]["name"] = long
    assert len(new_launcher(found)["metadata"]["labels"]["vm.kubevirt.io/name"]) <= 63


@pytest.mark.parametrize(
    ("given", "cpu", "memory"),
    [
        pytest.param(body(), "1000m", 1222, id="memory, and 198Mi around it"),
        pytest.param(body(limits={"cpu": "8", "memory": "16Gi"}), "8000m", 16384 + 180 + 64 + 8 + 32, id="a large one"),
    ],
)
def test_its_limits_are_what_the_vm_costs(given: dict[str, Any], cpu: str, memory: int) -> None:
    found = new_launcher(given)["spec"]["containers"][0]["resources"]
    assert found == {"limits": {"cpu": cpu, "memory": str(memory * MI)}}


def test_what_it_asks_for_is_what_the_vm_asks_for_and_all_that_is_around_it() -> None:
    given = body()
    given["spec"]["domain"]["resources"]["requests"] = {"cpu": "100m", "memory": "512Mi"}
    found = new_launcher(given)["spec"]["containers"][0]["resources"]
    assert found["requests"] == {"cpu": "100m", "memory": str((512 + 180 + 8 + 8 + 2) * MI)}
    given["spec"]["domain"]["resources"]["requests"] = {"cpu": "64", "memory": "64Gi"}
    found = new_launcher(given)["spec"]["containers"][0]["resources"]
    assert found["requests"] == found["limits"]


def test_it_has_the_containers_that_kubevirt_makes() -> None:
    """Requests are limits, which costs 100Mi of `compute`; the disk is a container, and what its start needs goes before it."""
    given = body(volumes=[{"name": "os", "containerDisk": {"image": "fedora"}}])
    pricing = Pricing(PricingChoice(version="v1.6.0").settings_by(None))
    spec = launchers.new_launcher(given, pricing=pricing)["spec"]
    resources = {one["name"]: one["resources"] for one in (*spec["initContainers"], *spec["containers"])}
    sides = {"cpu": "1", "memory": f"{1024 + 220 + 8 + 8 + 2 + 32 + 100}Mi"}
    assert resources["compute"]["limits"] == sides
    assert resources["compute"]["requests"] == {**sides, "ephemeral-storage": "50M"}
    assert resources["guest-console-log"]["limits"] == {"cpu": "15m", "memory": "60M"}
    assert [one["name"] for one in spec["initContainers"]] == ["container-disk-binary", "volumeos-init"]
    assert [one["name"] for one in spec["containers"]] == ["compute", "guest-console-log", "volumeos"]


def test_a_quota_on_memory_gives_a_limit_to_a_vm_that_has_none() -> None:
    settings = PricingChoice(version="v1.6.0").settings_by(None)
    given = body(limits={"cpu": "1"})
    free, bound = (
        launchers.new_launcher(given, pricing=Pricing(settings, rules))["spec"]["containers"][0]["resources"]
        for rules in (NamespaceRules(), NamespaceRules(limits_memory=True))
    )
    assert "memory" not in free["limits"]
    page_tables = -(-924 * MI // 1000) * 1000 // 512
    assert bound["limits"]["memory"] == str(2 * ((924 + 220 + 8 + 8 + 32) * MI + page_tables)), "twice the request"


def test_annotations_of_the_instance_come_to_the_pod() -> None:
    given = body()
    given["metadata"]["annotations"] = {"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    assert new_launcher(given)["metadata"]["annotations"] == {"a": "b", "kubevirt.io/domain": "db"}


def test_a_spec_that_does_not_say_what_it_costs_is_refused() -> None:
    with pytest.raises(BadInput, match=r"limits\.memory"):
        new_launcher(body(limits={"memory": "much"}))


def test_it_has_the_claims_that_stay_each_once() -> None:
    disks = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "dataVolume": {"name": "image"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "later", "hotpluggable": True}},
        {"name": "d", "cloudInitNoCloud": {}},
        {"name": "e", "persistentVolumeClaim": {"claimName": "data"}},
        "nonsense",
    ]
    made = new_launcher(body(volumes=disks))["spec"]["volumes"]
    assert [one["persistentVolumeClaim"]["claimName"] for one in made] == ["data", "image"]


def test_it_goes_where_the_vm_wants_to_and_a_target_goes_elsewhere() -> None:
    away = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["ullage"]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    plain = new_launcher(body(nodeSelector={"zone": "a"}, tolerations=[{"operator": "Exists"}]))["spec"]
    assert (plain["nodeSelector"], plain["tolerations"]) == ({"zone": "a"}, [{"operator": "Exists"}])
    assert "affinity" not in plain
    target = new_launcher(body(), target_of=MIGRATION, avoid="ullage")["spec"]
    assert target["affinity"] == {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [away]}]}}}
    gpu = {"key": "gpu", "operator": "Exists"}
    given = {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [gpu]}]}}, "podAffinity": {}}
    target = new_launcher(body(affinity=given), target_of=MIGRATION, avoid="ullage")["spec"]
    assert target["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"] == [{"matchExpressions": [gpu, away]}]
    assert new_launcher(body(), node="ullage-2")["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "ullage-2"}


@pytest.mark.parametrize(
    "nonsense", [{"nodeSelector": 1}, {"affinity": []}, {"affinity": {"nodeAffinity": 1}}, {"volumes": {}}]
)
def test_what_another_product_defines_may_be_anything(nonsense: dict[str, Any]) -> None:
    new_launcher(body(**nonsense), avoid="ullage")


def launcher(uid: str, node: str = "ullage", *, target: bool = False, **rest: Any) -> Pod:
    name = launcher_name("db", INSTANCE_UID if uid == "a" else uid)
    return pod(name=name, uid=uid, node=node, labels={"kubevirt.io/migrationJobUID": MIGRATION.uid} if target else {}, **rest)


@pytest.mark.parametrize(
    ("active", "node", "pods", "chosen"),
    [
        pytest.param({}, "", [launcher("b", target=True), launcher("a", "")], "a", id="before it runs it is no target"),
        pytest.param({}, "", [launcher("own", "")], None, id="one that somebody else made"),
        pytest.param({}, "", [launcher("a", phase="Failed"), launcher("c", going=True)], None, id="neither over nor going"),
        pytest.param(
            {"a": "ullage"}, "ullage", [launcher("a"), launcher("b", "ullage-2", target=True)], "a", id="while it moves"
        ),
        pytest.param(
            {"b": "ullage-2"}, "ullage-2", [launcher("a"), launcher("b", "ullage-2", target=True)], "b", id="when it has moved"
        ),
        pytest.param(
            {"a": "ullage", "b": "ullage-2"},
            "ullage-2",
            [launcher("a"), launcher("b", "ullage-2", target=True)],
            "b",
            id="of two that are active, the one of its node",
        ),
        pytest.param({"gone": "ullage"}, "ullage", [launcher("b", target=True)], None, id="the one that it ran in is gone"),
    ],
)
def test_which_pod_an_instance_runs_in(active: dict[str, str], node: str, pods: list[Pod], chosen: str | None) -> None:
    found = current_launcher(instance(node=node, status={"active_pods": active}), pods)
    assert (found.metadata.uid if found else None) == chosen
    assert {one.metadata.uid for one in targets_of(MIGRATION.uid, pods)} <= {"b"}


def test_it_can_be_read_as_a_pod() -> None:
    made = msgspec.convert(new_launcher(body(nodeSelector={"zone": "a"}), avoid="ullage"), Pod)
    assert made.spec.node_selector == {"zone": "a"}
    assert made.spec.affinity is not None
