"""Which clusters are followed and charged, and when what they took is given back."""

from __future__ import annotations

import asyncio
from copy import deepcopy

import msgspec
import pytest

from tests.unit.ledger.counted import counted
from tests.unit.projects.builders import cluster as cluster_object
from tests.unit.projects.machines.builders import SMALL
from tests.unit.projects.seed_scene import Json, SeedScene, machine_body, simulated
from ullage.kube.builtin.admissionregistration import MUTATING_WEBHOOKS
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.cache.indexer import Key
from ullage.kube.crds.definitions import crd_of
from ullage.kube.identities import NAMESPACE
from ullage.kube.kinds import Meta
from ullage.kube.objects import find_condition
from ullage.kube.review import Decision
from ullage.projects.api.kkp import CLUSTERS, ClusterStatus
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.records import MACHINE_RECORDS
from ullage.projects.charging.keys import STAMP_KEYS
from ullage.projects.charging.machines import charged_clusters, charged_project, charging, namespace_of
from ullage.projects.machines.reading import machine_facts
from ullage.projects.machines.signatures import SigningKeys, sign_bound


@simulated
async def test_what_a_cluster_took_is_given_back_when_its_object_is_gone_and_not_before(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="2")
    async with scene.served(controllers=True):
        assert (await scene.create()).code == 200
        await scene.seen()
        scene.cluster(deleting=True)
        await asyncio.sleep(60)
        assert used(scene) == {"c-1": "2"}
        scene.seed.drop(CLUSTERS, Key("", "c-1"))
        await asyncio.sleep(60)
        assert used(scene) == {}
        assert scene.wiring.clusters.names == []


@simulated
async def test_what_a_cluster_took_is_given_back_when_it_counts_for_nobody_any_more(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="2")
    async with scene.served(controllers=True):
        assert (await scene.create()).code == 200
        await scene.seen()
        scene.cluster(of="")
        await asyncio.sleep(60)
        assert used(scene) == {}


@simulated
async def test_a_cluster_that_moves_is_taken_out_of_one_ledger_and_counted_in_the_other(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="20")
    scene.limits("xyz", cpu="20")
    async with scene.served(controllers=True):
        assert (await scene.create()).code == 200
        await asyncio.sleep(200)
        scene.cluster(of="xyz")
        await asyncio.sleep(200)
        assert (used(scene), used(scene, "xyz")) == ({"c-1": "0"}, {"c-1": "2"})
        ready = [find_condition(scene.ledger(one).status.conditions, "Ready") for one in ("abc", "xyz")]
        assert [(one.status, one.message) for one in ready if one] == [("True", "everything is counted")] * 2


@simulated
async def test_no_label_but_that_of_its_project_takes_a_cluster_out_of_the_quota(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="4")
    async with scene.served(controllers=True):
        assert (await scene.create()).code == 200
        await asyncio.sleep(200)
        scene.cluster(labels={"external-cluster-id": "x"})
        await asyncio.sleep(200)
        assert used(scene) == {"c-1": "2"}
        assert (await scene.create("l")).code == 403, "what is there leaves room for 2, and this one takes 4"


@simulated
async def test_a_cluster_whose_kubeconfig_is_missing_keeps_its_project_from_being_exact(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="20")
    scene.seed.drop(SECRETS, Key("cluster-c-1", "admin-kubeconfig"))
    async with scene.served(controllers=True):
        await asyncio.sleep(60)
        ready = find_condition(scene.ledger().status.conditions, "Ready")
        assert ready is not None
        assert (ready.status, "machines.cluster.k8s.io/c-1" in ready.message) == ("False", True)


@simulated
async def test_a_count_is_exact_only_after_the_cluster_was_told_to_ask(scene: SeedScene) -> None:
    host = scene.cluster(asks=False)
    scene.limits(cpu="20")

    def ready() -> tuple[str, bool]:
        found = find_condition(scene.ledger().status.conditions, "Ready")
        assert found is not None
        return found.status, "machines.cluster.k8s.io/c-1" in found.message

    async with scene.served(controllers=True):
        await asyncio.sleep(200)
        assert ready() == ("False", True)
        scene.register()
        host.drop(MUTATING_WEBHOOKS, Key("", "ullage-elsewhere"))
        await asyncio.sleep(200)
        assert ready() == ("False", True), "one of the two hooks is missing"
        scene.register()
        await asyncio.sleep(50)
        assert ready() == ("False", True), "what was asked for before may take a minute"
        await asyncio.sleep(50)
        assert ready() == ("True", False)


@simulated
async def test_what_another_replica_signs_with_a_new_key_is_counted_once_that_is_read_here(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="20")
    async with scene.served():
        body = machine_body(name="a")
        body["metadata"]["uid"] = "u-a"
        facts = machine_facts("c-1", msgspec.convert(body, MACHINES.type))
        body["metadata"]["annotations"] = sign_bound(facts, SMALL, SigningKeys(b"n" * 32), now=scene.clock.now()).marks()
        scene.store(MACHINES, body)
        await scene.seen()
        await scene.create()
        assert used(scene) == {}
        data = secret_data({"signs": b"n" * 32})
        scene.seed.put(SECRETS, Secret(metadata=Meta(name=STAMP_KEYS, namespace=NAMESPACE), data=data))
        await scene.seen()
        await scene.create()
        assert used(scene) == {"c-1": "4"}, "with what was counted before; the last one is booked"


@simulated
async def test_who_puts_an_earlier_stamp_back_each_time_gains_no_room(scene: SeedScene) -> None:
    host = scene.cluster()
    scene.limits(cpu="6")
    async with scene.served(controllers=True):
        assert (await scene.create("m", name="a")).code == 200
        await scene.seen()
        small = scene.body("a")
        large = machine_body("l", name="a")
        large["metadata"] |= {name: small["metadata"][name] for name in ("uid", "creationTimestamp")}
        scene.store(MACHINES, large)
        await asyncio.sleep(60)
        assert used(scene) == {"c-1": "4"}

        async def put_back(body: Json) -> Decision:
            """A webhook of whoever administers the cluster."""
            scene.store(MACHINES, deepcopy(small))
            return Decision.allow()

        host.admitted = put_back
        scene.store(MACHINES, deepcopy(small))
        await asyncio.sleep(60)
        assert (await scene.create("l")).code == 403
        assert used(scene) == {"c-1": "4"}
        ready = find_condition(scene.ledger().status.conditions, "Ready")
        assert ready is not None
        assert ready.status == "True", "what the record holds against it is counted"


@simulated
async def test_a_cluster_that_nobody_can_call_so_is_told_once(scene: SeedScene, caplog: pytest.LogCaptureFixture) -> None:
    async with scene.served():
        for number in range(5):
            scene.seed.put(CLUSTERS, cluster_object("no.label", labels={"changed": str(number)}))
            await scene.seen()
        said = [one for one in caplog.records if "no cluster can be called that" in one.message]
        assert len(said) == 1


@pytest.mark.parametrize(
    ("there", "removed"),
    [
        pytest.param(None, True, id="gone"),
        pytest.param(cluster_object("c-1"), False, id="there"),
        pytest.param(cluster_object("c-1", deleting=True), False, id="being deleted"),
        pytest.param(cluster_object("c-1", of=""), True, id="of no project"),
        pytest.param(cluster_object("c-1", provider="gke"), True, id="imported"),
    ],
)
@simulated
async def test_whether_a_cluster_was_removed_is_asked_of_the_api_itself(scene: SeedScene, there: object, removed: bool) -> None:
    scene.wiring.made(charging())
    if there is not None:
        scene.seed.put(CLUSTERS, there)
    assert await scene.wiring.shared(charged_clusters).removed("c-1") is removed


def used(scene: SeedScene, project: str = "abc") -> dict[str, str]:
    """The processors that are counted, by cluster."""
    found = counted(scene.ledger(project).status.sums)
    there = {name.partition("/")[2]: takings.get("machines", {}).get("cpu", "0") for name, takings in found.items()}
    return {name: amount for name, amount in there.items() if name}


def test_where_the_kubeconfig_of_a_cluster_is() -> None:
    said = cluster_object("c-1")
    assert namespace_of(said) == "cluster-c-1"
    assert namespace_of(type(said)(metadata=said.metadata, status=ClusterStatus(namespace_name="elsewhere"))) == "elsewhere"


def test_a_label_that_no_project_can_have_names_none() -> None:
    assert [charged_project(cluster_object("c", of=label)) for label in ("abc", "A_b", "x" * 64)] == ["abc", "", ""]


def test_the_rights_that_are_needed_are_on_secrets_by_name() -> None:
    part = charging()
    assert (part.named_secrets, part.own_secrets, SECRETS in part.watches) == (("admin-kubeconfig",), (STAMP_KEYS,), False)


def test_the_record_can_be_defined() -> None:
    (version,) = crd_of(MACHINE_RECORDS)["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    assert set(version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]) == {
        "machines",
        "count",
        "vanished",
        "provider",
        "unstamped",
        "notRemembered",
        "conditions",
    }
