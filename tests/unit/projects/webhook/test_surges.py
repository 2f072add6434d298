"""Rolling replacements at the limit: refused with what to set, or let through by what they replace; and told to the owner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.projects.seed_scene import SYSTEM, Json, SeedScene, owner_reference, provider_spec, simulated
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.templates import DEPLOYMENT_TEMPLATES, SET_TEMPLATES
from ullage.projects.machines.digests import BadSpec
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.reading import deployment_facts, set_facts
from ullage.projects.machines.signatures import SigningKeys, Verdict, verify
from ullage.projects.machines.surge import DeploymentFacts, SetFacts
from ullage.projects.settings import Settings
from ullage.projects.webhook import surges


def template(flavour: str, kubelet: str) -> Json:
    """What differs between two revisions here is nothing that our kinds know."""
    return {"spec": {"providerSpec": {"value": provider_spec(flavour)}, "versions": {"kubelet": kubelet}}}


def rolling(scene: SeedScene, *, flavour: str = "m", replicas: int = 2, surge: Any = 1) -> None:
    """A deployment that goes from one version to the next: it and its two sets. The old one is `s-1`, the new one `s-2`."""
    new, old = template(flavour, "1.31"), template("m", "1.30")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}
    meta: Json = {"name": "web", "namespace": SYSTEM, "uid": "d-1"}
    scene.store(DEPLOYMENT_TEMPLATES, {"metadata": meta, "spec": {"replicas": replicas, "template": new, "strategy": strategy}})
    for number, one in enumerate((old, new), start=1):
        meta = {
            "name": f"web-{number}",
            "namespace": SYSTEM,
            "uid": f"s-{number}",
            "annotations": {"machinedeployment.clusters.k8s.io/revision": str(number)},
            "ownerReferences": [owner_reference("MachineDeployment", "d-1")],
        }
        labelled = {**one, "metadata": {"labels": {"machine-template-hash": str(number)}}}
        scene.store(SET_TEMPLATES, {"metadata": meta, "spec": {"template": labelled}})


async def filled(scene: SeedScene, machines: int = 2) -> None:
    for _ in range(machines):
        assert (await scene.create(owner="s-1")).code == 200
    await scene.seen()


@simulated
async def test_a_strict_refusal_of_a_replacement_says_what_to_set(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="4")
    rolling(scene)
    async with scene.served():
        await filled(scene)
        refused = await scene.create(owner="s-2")
        assert refused.code == 403
        assert "set spec.strategy.rollingUpdate.maxUnavailable of MachineDeployment web to 1" in refused.message
        growing = await scene.create(owner="s-1")
        assert (growing.code, "then delete machines or scale down" in growing.message) == (403, True)


@simulated
async def test_a_replacement_may_pass_the_limit_by_what_it_replaces_and_no_further(scene: SeedScene) -> None:
    scene.settings = Settings(surge="replace")
    scene.cluster(provider="fake")  # what went has no server
    scene.limits(cpu="4")
    rolling(scene)
    async with scene.served(controllers=True):
        await filled(scene)
        assert (await scene.create(owner="s-2")).code == 200
        await scene.seen()
        assert (await scene.create(owner="s-2")).code == 403
        assert (await scene.create()).code == 403
        scene.remove(next(one["metadata"]["name"] for one in scene.bodies() if "s-1" in str(one["metadata"])))
        await scene.seen()
        assert (await scene.create(owner="s-2")).code == 200


@simulated
async def test_of_several_that_come_at_once_no_more_pass_than_are_replaced(scene: SeedScene) -> None:
    scene.settings = Settings(surge="replace")
    scene.cluster()
    scene.limits(cpu="4")
    rolling(scene)
    async with scene.served():
        await filled(scene)
        answers = await asyncio.gather(*(scene.create(owner="s-2") for _ in range(5)))
        assert sum(one.allowed for one in answers) <= 1
        assert {one.code for one in answers if not one.allowed} <= {403, 429}
        assert len(scene.bodies()) <= 3


@simulated
async def test_a_replacement_by_larger_machines_has_to_fit(scene: SeedScene) -> None:
    scene.settings = Settings(surge="replace")
    scene.cluster()
    scene.limits(cpu="4")
    rolling(scene, flavour="l")
    async with scene.served():
        await filled(scene)
        assert (await scene.create("l", owner="s-2")).code == 403


@simulated
async def test_the_owner_is_told_once_and_nobody_where_it_was_only_tried(scene: SeedScene) -> None:
    host = scene.cluster()
    scene.limits(cpu="4")
    rolling(scene)
    async with scene.served():
        await filled(scene)
        await scene.create(owner="s-2", dry_run=True)
        await scene.seen()
        assert host.events == []
        for _ in range(3):
            await scene.create(owner="s-2")
        await scene.seen()
        (event,) = host.events
        assert (event.regarding.kind, event.regarding.name, event.type, event.reason) == (
            "MachineDeployment",
            "web",
            "Warning",
            "MachineRefused",
        )
        assert event.note.startswith('requested CPU "2" would exceed current quota')
        assert event.metadata.namespace == SYSTEM


@simulated
async def test_a_machine_of_a_set_alone_is_told_on_the_set_and_one_of_nobody_nowhere(scene: SeedScene) -> None:
    host = scene.cluster()
    scene.limits(cpu="0")
    rolling(scene)
    host.drop(DEPLOYMENT_TEMPLATES, Key(SYSTEM, "web"))
    async with scene.served():
        assert (await scene.create(owner="s-1")).code == 403
        assert (await scene.create(owner="s-unknown")).code == 403
        assert (await scene.create()).code == 403
        await scene.seen()
        assert [(one.regarding.kind, one.regarding.name) for one in host.events] == [("MachineSet", "web-1")]


@simulated
async def test_a_user_cluster_that_does_not_answer_delays_no_answer_and_loses_its_events_alone(scene: SeedScene) -> None:
    host = scene.cluster()
    scene.limits(cpu="0")
    rolling(scene)
    async with scene.served():
        host.cut_off()
        before = scene.clock.monotonic()
        assert (await scene.create(owner="s-1")).code == 403
        assert scene.clock.monotonic() - before < 2


@simulated
async def test_a_deployment_of_more_machines_than_are_looked_at_gets_no_allowance(scene: SeedScene) -> None:
    scene.settings = Settings(surge="replace")
    scene.cluster()
    scene.limits(cpu="4")
    rolling(scene)
    for number in range(501):
        owner = [owner_reference("MachineSet", "s-1")]
        meta = {"name": f"x{number}", "namespace": SYSTEM, "ownerReferences": owner}
        scene.store(MACHINES, {"metadata": meta, "spec": {}})
    async with scene.served():
        await filled(scene)
        assert (await scene.create(owner="s-2")).code == 403


@simulated
async def test_machines_sets_and_deployments_are_looked_at_once_in_each_state_however_many_are_refused(
    scene: SeedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def verified(facts: MachineFacts, keys: SigningKeys) -> Verdict:
        looked.append(facts.name)
        return verify(facts, keys)

    def read(one: Any, template: Any) -> SetFacts:
        looked.append(one.metadata.name)
        return set_facts(one, template)

    def read_deployment(one: Any, template: Any) -> DeploymentFacts:
        looked.append(one.metadata.name)
        return deployment_facts(one, template)

    monkeypatch.setattr(surges, "verify", verified)
    monkeypatch.setattr(surges, "set_facts", read)
    monkeypatch.setattr(surges, "deployment_facts", read_deployment)
    scene.cluster()
    scene.limits(cpu="4")
    rolling(scene)
    async with scene.served():
        await filled(scene)
        for _ in range(3):
            assert (await scene.create(owner="s-2")).code == 403
        names = [one["metadata"]["name"] for one in scene.bodies()]
        assert sorted(looked) == sorted(["web", "web-1", "web-2", *names])
        looked.clear()
        body = scene.body(names[0])
        body["metadata"]["annotations"].pop("ullage.io/takes-signature")
        scene.store(MACHINES, body)
        await scene.seen()
        assert (await scene.create(owner="s-2")).code == 403
        assert looked == [names[0]], "only what has changed"


@simulated
async def test_a_template_that_cannot_be_read_is_not_read_for_each_that_is_refused(
    scene: SeedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def read(one: Any, template: Any) -> SetFacts:
        looked.append(one.metadata.name)
        raise BadSpec("spec.providerSpec", "…", "it has more than 5000 fields and elements")

    monkeypatch.setattr(surges, "set_facts", read)
    scene.cluster()
    scene.limits(cpu="4")
    rolling(scene)
    async with scene.served():
        await filled(scene)
        for _ in range(3):
            assert (await scene.create(owner="s-2")).code == 403
        assert len(looked) == 1, "the first that cannot be read is enough"


def test_what_was_looked_at_is_forgotten_before_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surges, "REMEMBERED", 10)
    looked: Any = surges._Looked()
    for number in range(100):
        assert looked.get("c-1", Meta(uid=f"u-{number}", resource_version="1"), lambda number=number: number) == number
    assert len(looked._found) <= 10
