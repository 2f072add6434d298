"""MachineDeployments learn early what will not fit: by a warning, or a refusal where they ask for one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.projects.seed_scene import SYSTEM, Json, SeedScene, provider_spec, review_of, simulated
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Decision
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS
from ullage.projects.webhook.deployments import DeploymentWebhook

EARLY = {"ullage.io/enforce-early": "true"}
SCALES = Kind("autoscaling", "v1", "Scale", "machinedeployments", Object)


def deployment(replicas: Any = 3, flavour: str = "m", *, annotations: Json | None = None) -> Json:
    meta = {"name": "web", "namespace": SYSTEM, **({"annotations": annotations} if annotations else {})}
    template = {"spec": {"providerSpec": {"value": provider_spec(flavour)}}}
    return {"metadata": meta, "spec": {**({"replicas": replicas} if replicas is not None else {}), "template": template}}


async def scaled(scene: SeedScene, before: int, after: int) -> Decision:
    meta = {"name": "web", "namespace": SYSTEM}
    old, new = ({"metadata": meta, "spec": {"replicas": number}} for number in (before, after))
    return await scene.hook("project-machinedeployment").answer(review_of(SCALES, new, old, subresource="scale"))


@simulated
async def test_a_new_deployment_that_does_not_fit_is_warned_and_made(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="4")
    async with scene.served():
        decided = await scene.submit(MACHINE_DEPLOYMENTS, deployment(3))
        assert decided.allowed
        assert decided.warnings == (
            "MachineDeployment web: 3 machines do not fit the project's quota: cpu is over by 2 cores; what is beyond is"
            " refused",
        )


@simulated
async def test_one_that_asks_for_it_is_refused(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="4")
    async with scene.served():
        decided = await scene.submit(MACHINE_DEPLOYMENTS, deployment(3, annotations=EARLY))
        assert (decided.code, decided.message.startswith("MachineDeployment web would not get its 3 machines")) == (403, True)
        assert (await scene.submit(MACHINE_DEPLOYMENTS, deployment(2, annotations=EARLY))).allowed


@pytest.mark.parametrize(
    ("before", "after", "warned"),
    [
        pytest.param(deployment(1), deployment(3), False, id="more, that fit beside what is booked"),
        pytest.param(deployment(1), deployment(4), True, id="more than fit"),
        pytest.param(deployment(9), deployment(9), False, id="as many as before"),
        pytest.param(deployment(9), deployment(1), False, id="fewer"),
        pytest.param(deployment(2), deployment(2, "l"), False, id="larger ones, by what fits"),
        pytest.param(deployment(2), deployment(5, "huge"), False, id="of a size that nobody knows"),
        pytest.param(deployment(None), deployment(9), True, id="from one, where it is not said"),
    ],
)
@simulated
async def test_an_update_is_told_what_is_more(scene: SeedScene, before: Json, after: Json, warned: bool) -> None:
    scene.cluster()
    scene.limits(cpu="4")
    async with scene.served():
        await scene.submit(MACHINE_DEPLOYMENTS, before)
        assert bool((await scene.submit(MACHINE_DEPLOYMENTS, after)).warnings) == warned


@simulated
async def test_a_scale_is_told_by_the_deployment_that_it_is_of(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="4")
    async with scene.served():
        await scene.submit(MACHINE_DEPLOYMENTS, deployment(1))
        await scene.seen()
        assert (await scaled(scene, 1, 3)).warnings == ()
        assert len((await scaled(scene, 1, 4)).warnings) == 1
        await scene.submit(MACHINE_DEPLOYMENTS, deployment(1, annotations=EARLY))
        await scene.seen()
        assert (await scaled(scene, 1, 4)).code == 403
        assert (await scaled(scene, 4, 1)).code == 200


@simulated
async def test_where_there_is_no_quota_or_no_such_deployment_nothing_is_said(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served():
        assert (await scene.submit(MACHINE_DEPLOYMENTS, deployment(900, annotations=EARLY))).warnings == ()
        assert (await scaled(scene, 1, 900)).allowed
        scene.limits(cpu="0")
        await scene.seen()
        hook = scene.hook("project-machinedeployment")
        unknown = review_of(SCALES, {"metadata": {"name": "x"}, "spec": {}}, {"metadata": {}}, subresource="scale")
        assert (await hook.answer(unknown)).allowed


@simulated
async def test_what_is_written_in_a_template_breaks_nothing(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="0")
    async with scene.served():
        for spec in ({}, {"template": {"spec": {"providerSpec": {"value": None}}}}):
            body = {"metadata": {"name": "odd", "namespace": SYSTEM}, "spec": {"replicas": 2, **spec}}
            assert (await scene.submit(MACHINE_DEPLOYMENTS, msgspec.json.decode(msgspec.json.encode(body)))).allowed


def test_nothing_stops_when_it_cannot_be_asked() -> None:
    (hook,) = DeploymentWebhook(None).hooks()  # type: ignore[arg-type]  # nothing is asked
    assert (hook.failure_policy, hook.elsewhere, hook.side_effects) == ("Ignore", True, "None")
    assert {resource for target in hook.targets for resource in target.resources} == {
        "machinedeployments",
        "machinedeployments/scale",
    }


@simulated
async def test_one_that_makes_no_sense_may_be_changed_and_lose_its_finalizers(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="0")
    async with scene.served():
        body = deployment("three", annotations=EARLY)
        changed = {**body, "metadata": {**body["metadata"], "finalizers": []}}
        assert (await scene.hook("project-machinedeployment").answer(review_of(MACHINE_DEPLOYMENTS, changed, body))).allowed
        assert (await scene.hook("project-machinedeployment").answer(review_of(MACHINE_DEPLOYMENTS, body))).allowed
