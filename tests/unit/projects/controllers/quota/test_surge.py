"""What `surge: replace` has let pass is shown on the seed's copy of the quota, and no longer than it is over the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.projects.builders import details, quota
from tests.unit.projects.machines.builders import NOW, SMALL
from tests.unit.projects.seed_scene import SeedScene, simulated
from tests.unit.projects.webhook.test_surges import filled, rolling
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller
from ullage.kube.objects import Condition, find_condition
from ullage.kube.slices import Part, Wiring
from ullage.ledger.api import LEDGERS
from ullage.ledger.book import Over
from ullage.projects.api.quotas import PROJECT_QUOTAS, REPLACING
from ullage.projects.controllers import quota_surge as surge
from ullage.projects.controllers.quota_surge import NAMED, Replacing, replacing_text, status_with
from ullage.projects.machines.surge import DeploymentFacts, OwnedMachine, SetFacts, SurgeAllowance, surplus
from ullage.projects.settings import Settings
from ullage.quantity import Quantity


def with_surges(scene: SeedScene) -> None:
    """The controller of surges beside those of Machines, and a quota whose copy is here."""
    scene.seed.put(PROJECT_QUOTAS, quota("abc", details(cpu="4")))
    before = scene.slice()
    assert before.controllers is not None
    part = before.controllers

    def controllers(wiring: Wiring) -> list[Controller[Any]]:
        return [*part.make(wiring), surge.make_surges(wiring, scene.settings)]

    watches = (*part.watches, PROJECT_QUOTAS, LEDGERS)
    made = replace(before, controllers=Part(make=controllers, watches=watches, elsewhere=part.elsewhere))
    scene.slice = lambda: made  # type: ignore[method-assign]  # with one controller more


def shown(scene: SeedScene) -> Condition | None:
    return find_condition(scene.seed.get(PROJECT_QUOTAS, Key("", "project-abc")).status.conditions, REPLACING)


@simulated
async def test_a_replacement_that_passes_the_limit_is_shown_until_it_is_back_inside(scene: SeedScene) -> None:
    scene.settings = Settings(surge="replace")
    scene.cluster(provider="fake")
    scene.limits(cpu="4")
    rolling(scene)
    with_surges(scene)
    async with scene.served(controllers=True):
        await filled(scene)
        assert shown(scene) is None
        assert (await scene.create(owner="s-2")).code == 200
        await asyncio.sleep(10)
        found = shown(scene)
        assert found is not None
        assert (found.status, found.reason, found.observed_generation) == ("True", "SurgePassesLimit", 1)
        assert found.message == (
            "cluster c-1: MachineDeployment web is replacing 2 machines by those of revision 2, of which there are 1; until"
            " that is done the quota is passed: cpu by 2 cores"
        )
        scene.remove(next(one["metadata"]["name"] for one in scene.bodies() if "s-1" in str(one["metadata"])))
        await asyncio.sleep(15)
        assert shown(scene) is None


@simulated
async def test_what_is_over_for_another_reason_is_not_shown_as_a_replacement(scene: SeedScene) -> None:
    scene.settings = Settings(surge="replace")
    scene.cluster(provider="fake")
    scene.limits(cpu="4")
    rolling(scene)
    with_surges(scene)
    async with scene.served(controllers=True):
        await filled(scene)
        scene.limits(cpu="1")
        await asyncio.sleep(20)
        assert shown(scene) is None


@simulated
async def test_where_nothing_may_pass_what_is_left_from_before_goes(scene: SeedScene) -> None:
    scene.cluster(provider="fake")
    scene.limits(cpu="4")
    with_surges(scene)
    status = status_with(quota("abc"), [over("2")], [replacing("web")], now=NOW)
    scene.seed.put(PROJECT_QUOTAS, quota("abc", details(cpu="4"), status=status))
    async with scene.served(controllers=True):
        await asyncio.sleep(5)
        assert shown(scene) is None


# --- rules -----------------------------------------------------------------------------------------------------------


def over(cpu: str) -> Over:
    zero = Quantity.of(0)
    used = Quantity.of(4) + Quantity.parse(cpu)
    return Over(account="machines", resource="cpu", asked=zero, used=used, reserved=zero, limit=Quantity.of(4))


def replacing(name: str) -> Replacing:
    return Replacing("c-1", name, SurgeAllowance(why="", revision=2, new=1, old=2))


def test_nothing_new_is_the_very_same_status_and_many_deployments_are_not_all_named() -> None:
    first = status_with(quota("abc"), [over("2")], [replacing("web")], now=NOW)
    again = quota("abc", status=first)
    assert status_with(again, [over("2")], [replacing("web")], now=NOW) is first
    assert status_with(again, [], [], now=NOW).conditions == ()
    assert replacing_text([over("2")], [replacing(f"d-{n}") for n in range(NAMED + 2)]).endswith("; and 2 more deployments")


SETS = [SetFacts(uid=f"s-{n}", owner="d-1", template=f"t-{n}", revision=str(n)) for n in (1, 2)]


@pytest.mark.parametrize(
    ("owners", "replicas", "surges"),
    [
        pytest.param(["s-1", "s-1", "s-2"], 2, True, id="one more than it wants, of two revisions"),
        pytest.param(["s-1", "s-2"], 2, False, id="as many as it wants"),
        pytest.param(["s-1", "s-1", "s-1"], 2, False, id="none of the newest one"),
        pytest.param(["s-2", "s-2", "s-2"], 2, False, id="none of an older one: it is scaled down"),
        pytest.param(["s-1", "s-1", "s-2", "x"], 3, False, id="those of others do not count"),
    ],
)
def test_which_deployments_have_a_surplus(owners: list[str], replicas: int, surges: bool) -> None:
    deployment = DeploymentFacts(uid="d-1", name="web", replicas=replicas, template="t-2")
    machines = [OwnedMachine(uid=f"u-{n}", owner=owner, amounts=SMALL) for n, owner in enumerate(owners)]
    assert (surplus(deployment, SETS, machines) is not None) is surges
