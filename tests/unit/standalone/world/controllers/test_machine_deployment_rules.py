"""Which MachineSets a MachineDeployment has, and how machines are replaced step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.kube.kinds import Meta
from ullage.projects.api.machines import (
    MachineDeployment,
    MachineDeploymentSpec,
    MachineSet,
    MachineSetStatus,
    RollingUpdate,
    Selector,
    Strategy,
)
from ullage.projects.machines.reading import deployment_facts, set_facts
from ullage.projects.machines.surge import DeploymentFacts
from ullage.standalone.world.controllers.machine_deployment_rules import (
    DeploymentPlan,
    max_surge,
    max_unavailable,
    plan_deployment,
    revision_of,
)

REVISION = "machinedeployment.clusters.k8s.io/revision"
HASH = "machine-template-hash"


def template(size: str) -> dict[str, Any]:
    value = {"cloudProvider": "fake", "cloudProviderSpec": {"size": size}}
    return {"metadata": {"labels": {"pool": "a"}}, "spec": {"providerSpec": {"value": value}, "versions": {"kubelet": "1.30"}}}


def deployment(replicas: int | None = 3, surge: Any = None, unavailable: Any = None, **spec: Any) -> MachineDeployment:
    spec.setdefault("strategy", Strategy(rolling_update=RollingUpdate(max_surge=surge, max_unavailable=unavailable)))
    wanted = MachineDeploymentSpec(replicas=replicas, selector=Selector(match_labels={"pool": "a"}), **spec)
    return MachineDeployment(metadata=Meta(name="pool", namespace="kube-system", uid="uid-md", generation=4), spec=wanted)


def stored(body: dict[str, Any], *, uid: str) -> MachineSet:
    body = {**body, "metadata": {**body["metadata"], "uid": uid}}
    return msgspec.convert(msgspec.to_builtins(body), MachineSet)


def plan(found: MachineDeployment, size: str, *sets: MachineSet) -> DeploymentPlan:
    made = plan_deployment(found, template(size), sets)
    assert made is not None
    return made


def made_set(found: MachineDeployment, size: str, *sets: MachineSet) -> MachineSet:
    body = plan(found, size, *sets).create
    assert body is not None
    return stored(body, uid=f"uid-{size}")


def scaled(one: MachineSet, replicas: int, *, ready: int = 0) -> MachineSet:
    spec = msgspec.structs.replace(one.spec, replicas=replicas)
    return msgspec.structs.replace(one, spec=spec, status=MachineSetStatus(replicas=replicas, ready_replicas=ready))


def test_a_new_one_gets_a_set_with_all_of_its_template_and_all_machines() -> None:
    body = plan(deployment(3), "s").create
    assert body is not None
    meta, spec = body["metadata"], body["spec"]
    mark = meta["labels"][HASH]
    assert meta["name"] == f"pool-{mark}"
    assert meta["annotations"] == {REVISION: "1"}
    assert (meta["ownerReferences"][0].uid, meta["ownerReferences"][0].controller) == ("uid-md", True)
    assert spec["replicas"] == 3
    assert spec["selector"] == {"matchLabels": {"pool": "a", HASH: mark}}
    assert spec["template"]["spec"] == template("s")["spec"]
    assert spec["template"]["metadata"]["labels"] == {"pool": "a", HASH: mark}


def test_what_is_made_is_what_decisions_about_replacements_believe() -> None:
    found = deployment(3)
    facts = deployment_facts(found, template("s"))
    assert isinstance(facts, DeploymentFacts)
    body = plan(found, "s").create
    assert body is not None
    seen = set_facts(stored(body, uid="u"), body["spec"]["template"])
    assert (seen.owner, seen.template, seen.revision) == (facts.uid, facts.template, "1")


def test_another_template_gets_another_set_of_the_next_revision_with_no_more_than_the_surge() -> None:
    found = deployment(3, surge=1)
    old = scaled(made_set(found, "s"), 3, ready=3)
    new = made_set(found, "m", old)
    assert (revision_of(new), new.spec.replicas) == (2, 1)
    assert new.metadata.name != old.metadata.name


def test_a_template_that_comes_back_takes_its_set_again_as_the_newest_one() -> None:
    found = deployment(3)
    first = scaled(made_set(found, "s"), 0)
    second = scaled(made_set(found, "m", first), 3, ready=3)
    revised = plan(found, "s", first, second).revision
    assert revised is not None
    assert (revised[0].metadata.uid, revised[1]) == ("uid-s", "3")


@pytest.mark.parametrize(
    ("found", "new", "old", "scale"),
    [
        pytest.param(deployment(5), (3, 3), None, {"m": 5}, id="scaled up"),
        pytest.param(deployment(1), (3, 3), None, {"m": 1}, id="scaled down"),
        pytest.param(deployment(3), (3, 3), None, {}, id="at rest"),
        pytest.param(deployment(3, 1, 0), (1, 0), (3, 3), {}, id="nothing goes before the new one is ready"),
        pytest.param(deployment(3, 1, 0), (1, 1), (3, 3), {"s": 2}, id="a ready one lets one go"),
        pytest.param(deployment(3, 1, 0), (1, 1), (2, 2), {"m": 2}, id="and that makes room for the next"),
        pytest.param(deployment(3, 0, 1), (0, 0), (3, 3), {"s": 2}, id="without surge one goes first"),
        pytest.param(deployment(3, 0, 1), (0, 0), (2, 2), {"m": 1}, id="and the new one takes its place"),
        pytest.param(deployment(3, 0, 0), (0, 0), (3, 3), {"s": 2}, id="neither more nor fewer would never end"),
        pytest.param(deployment(3, 1, 0), (1, 0), (3, 2), {}, id="one that is not ready may be missed by nobody else"),
        pytest.param(deployment(3, 1, 1), (1, 0), (3, 2), {"s": 2}, id="those that are not ready go first"),
        pytest.param(deployment(2, 1, 0), (1, 1), (3, 3), {"s": 1}, id="scaled down while it replaces"),
    ],
)
def test_the_next_step(
    found: MachineDeployment, new: tuple[int, int], old: tuple[int, int] | None, scale: dict[str, int]
) -> None:
    first = made_set(found, "s")
    sets = [] if old is None else [scaled(first, old[0], ready=old[1])]
    newest = scaled(made_set(found, "m", *sets), new[0], ready=new[1])
    names = {first.metadata.name: "s", newest.metadata.name: "m"}
    done = plan(found, "m", newest, *sets).scale
    assert {names[name]: count for name, count in (done or {}).items()} == scale


def test_of_empty_sets_the_last_one_stays() -> None:
    found = deployment(1)
    first = scaled(made_set(found, "s"), 0)
    second = scaled(made_set(found, "m", first), 0)
    third = scaled(made_set(found, "l", first, second), 1, ready=1)
    assert [one.metadata.uid for one in plan(found, "l", third, second, first).delete] == ["uid-s"]


def test_what_is_paused_or_goes_is_left_alone() -> None:
    paused = plan(deployment(3, paused=True), "s")
    assert (paused.create, paused.scale) == (None, None)
    going = deployment(3)
    going = msgspec.structs.replace(
        going, metadata=msgspec.structs.replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    )
    assert plan_deployment(going, template("s"), []) is None


def test_a_strategy_that_is_not_played_is_said_and_replaces_nothing() -> None:
    found = deployment(3, strategy=Strategy(type="OnDelete"))
    old = scaled(made_set(found, "s"), 3, ready=3)
    done = plan(found, "m", old)
    assert (done.unsupported, done.create, done.scale) == ("OnDelete", None, None)
    assert plan(found, "s", scaled(old, 1)).scale == {old.metadata.name: 3}, "it is scaled all the same"


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "wanted"),
    [
        pytest.param(10, None, None, (1, 0), id="as machine-controller has it where nothing is said"),
        pytest.param(10, "25%", "25%", (3, 2), id="percent: more is rounded up, fewer down"),
        pytest.param(3, 0, None, (0, 1), id="one at least may be missing where none may be more"),
        pytest.param(0, 0, 0, (0, 0), id="of none none may be missing"),
        pytest.param(2, 1, 9, (1, 2), id="no more can be missing than there are"),
    ],
)
def test_how_far_it_may_go(replicas: int, surge: Any, unavailable: Any, wanted: tuple[int, int]) -> None:
    found = deployment(replicas, surge, unavailable)
    assert (max_surge(found), max_unavailable(found)) == wanted


@dataclass
class Pool:
    """Sets that do at once what they are told, as far as so many machines fit; `limit` None: any number."""

    found: MachineDeployment
    limit: int | None
    sets: dict[str, MachineSet] = field(default_factory=dict)

    def step(self, size: str) -> bool:
        """Whether anything was done."""
        before = dict(self.sets)
        done = plan(self.found, size, *self.sets.values())
        if done.create is not None:
            one = stored(done.create, uid=f"uid-{size}")
            self.sets[one.metadata.name] = one
        for name, replicas in (done.scale or {}).items():
            self.sets[name] = scaled(self.sets[name], replicas, ready=min(replicas, self.sets[name].status.ready_replicas))
        for name, one in self.sets.items():
            self.sets[name] = self._settle(one)
        return self.sets != before

    def _settle(self, one: MachineSet) -> MachineSet:
        wanted = one.spec.replicas or 0
        others = sum(each.status.replicas for each in self.sets.values() if each is not one)
        count = wanted if self.limit is None else max(0, min(wanted, self.limit - others))
        count = min(wanted, max(count, one.status.ready_replicas))
        return msgspec.structs.replace(one, status=MachineSetStatus(replicas=count, ready_replicas=count))

    @property
    def wanted(self) -> int:
        return sum(one.spec.replicas or 0 for one in self.sets.values())

    @property
    def ready(self) -> int:
        return sum(one.status.ready_replicas for one in self.sets.values())


@settings(max_examples=150, deadline=None)
@given(replicas=st.integers(0, 8), surge=st.integers(0, 3), unavailable=st.integers(0, 3))
def test_every_replacement_ends_and_never_goes_further_than_it_may(replicas: int, surge: int, unavailable: int) -> None:
    pool = Pool(deployment(replicas, surge, unavailable), None)
    while pool.step("s"):
        pass
    assert pool.ready == replicas
    fewest = replicas - max_unavailable(pool.found)
    for _ in range(100):
        if not pool.step("m"):
            break
        assert pool.wanted <= replicas + surge
        assert pool.ready >= fewest
    newest = max(pool.sets.values(), key=revision_of)
    assert (newest.status.ready_replicas, pool.wanted) == (replicas, replicas)


@pytest.mark.parametrize(("unavailable", "replaced"), [(0, 0), (1, 3)])
def test_where_no_more_fit_only_those_that_may_be_missing_are_replaced(unavailable: int, replaced: int) -> None:
    """A quota that is full: with maxSurge alone the first new machine is refused for ever, which is what the refusal says."""
    pool = Pool(deployment(3, 1, unavailable), 3)
    while pool.step("s"):
        pass
    for _ in range(50):
        pool.step("m")
    newest = max(pool.sets.values(), key=revision_of)
    assert (revision_of(newest), newest.status.ready_replicas) == (2, replaced)
