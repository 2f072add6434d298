"""Ullage beside the real machine-controller, in a user cluster whose seed refuses strictly, then lets machines be replaced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.built import built
from tests.e2e.projects_scene import Platform, UserCluster, eventually_is, platform
from tests.e2e.snapshot_scene import eventually
from tools.peers.machine_controller.build import machine_controller
from ullage.app.installer.roles import CONTROLLER, WEBHOOK
from ullage.projects.webhook.refused_sets import ASKED_AGAIN

from .machine_controller import COMBINED, HOLDS, MachineController, Pool, template, times, wait_for_a_pause

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]
NAME = "real"  # of the project, its seed and its cluster
NEWER = "1.31.0"
EXCEEDED = "would exceed current quota"
PAUSE = 7.0  # seconds: after a wait of 5.1 s and a try, within one of 10.2 s
SOON = 15.0  # seconds; by itself it asks again in minutes, in the end
# What it says where the API server refused Machines, and where it wrote the status of an older set.
SAYS = ("failed to sync Machineset replicas: ", "failed to sync machines: ", "failed to update machine set status: ")


@pytest.fixture(scope="module")
def programs() -> Path:
    return built(machine_controller)


@pytest.fixture(scope="module")
def kkp(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with platform(tmp_path_factory.mktemp("master")) as made:
        made.project(NAME)
        made.add_seed(NAME)
        yield made


@pytest.fixture(scope="module")
def cluster(kkp: Platform, programs: Path) -> Iterator[UserCluster]:
    """A user cluster whose project has a quota of nothing at first."""
    made = kkp.seeds[NAME].add(NAME, NAME)
    kkp.set_quota(NAME, cpu="0", memory="100Gi", storage="1000Gi")
    kkp.in_force(NAME)
    with MachineController(programs, made, kkp.folder / "machine-controller.log"):
        yield made


@pytest.fixture
def replacing(kkp: Platform, cluster: UserCluster) -> Iterator[None]:
    """The seed lets rolling updates pass the limit."""

    def restart(*options: str) -> None:
        seed = kkp.seeds[NAME]
        seed.processes.end(WEBHOOK, CONTROLLER)
        seed.processes.options = options
        seed.processes.start(WEBHOOK, CONTROLLER)
        eventually("the seed is asked again", lambda: seed.is_asked(cluster))

    restart("--surge", "replace")
    yield
    restart()


def give(kkp: Platform, cpu: int) -> None:
    """Sets the quota; waits until the seed may give it out."""
    kkp.set_quota(NAME, cpu=str(cpu))
    eventually_is("the seed has the limit", str(cpu), lambda: kkp.seeds[NAME].limits(NAME).get("cpu"))


def used(kkp: Platform) -> str:
    return kkp.seeds[NAME].usage(NAME).get("cpu", "0")


def refused(pool: Pool) -> list[str]:
    """What machine-controller says in Events on sets of machines."""
    found = [one for one in pool.events("ReconcileError") if one["involvedObject"]["kind"] == "MachineSet"]
    return [one["message"].removeprefix(COMBINED) for one in found]


def gone(kkp: Platform, pool: Pool) -> None:
    pool.delete()
    eventually("all machines are gone", lambda: not pool.machines())
    eventually_is("nothing is used", "0", lambda: used(kkp))


def test_machines_are_stamped_counted_and_refused_and_come_at_once_when_the_quota_is_raised(
    kkp: Platform, cluster: UserCluster
) -> None:
    give(kkp, 3)
    pool = Pool(cluster, "web", 2)
    eventually_is("two are available", 2, pool.available)
    assert all("ullage.io/takes" in one["metadata"]["annotations"] for one in pool.machines())
    finalizers = {name for one in pool.machines() for name in one["metadata"]["finalizers"]}
    assert HOLDS in finalizers

    pool.change(replicas=5)
    eventually_is("a third one fits", 3, lambda: len(pool.machines()))
    eventually("machine-controller tells of refusals", lambda: pool.events("ReconcileError"))
    (machine_set,) = pool.sets()
    assert set(machine_set["status"]) <= {
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    }
    told = refused(pool)
    assert all(one.startswith(SAYS) for one in told), told
    eventually("each try asks for all missing machines", lambda: any(one.count(EXCEEDED) == 2 for one in refused(pool)))
    assert not pool.events("SuccessfulCreate", "FailedCreate", "SuccessfulDelete")
    eventually("the deployment says so", lambda: pool.events("MachineRefused"))

    wait_for_a_pause(lambda: times(pool.events("ReconcileError")), PAUSE)
    (machine_set,) = pool.sets()
    assert ASKED_AGAIN not in machine_set["metadata"]["annotations"], "there is no room yet"
    raised = time.monotonic()
    give(kkp, 5)
    eventually_is("all five are there", 5, lambda: len(pool.machines()), seconds=60)
    waited = time.monotonic() - raised
    (machine_set,) = pool.sets()
    assert ASKED_AGAIN in machine_set["metadata"]["annotations"], "it did not ask by itself: sets that have all are not touched"
    print(f"two machines came {waited:.1f} s after the quota was raised")
    assert waited < SOON
    gone(kkp, pool)


def test_a_strict_rolling_update_at_the_limit_stands_still_until_machines_may_go_first(
    kkp: Platform, cluster: UserCluster
) -> None:
    give(kkp, 2)
    pool = Pool(cluster, "strictly", 2)
    eventually_is("both are available", 2, pool.available)
    before = {one["metadata"]["uid"] for one in pool.machines()}
    pool.change(template=template("strictly", kubelet=NEWER))
    eventually("the deployment says why", lambda: pool.events("MachineRefused"))
    advice = "set spec.strategy.rollingUpdate.maxUnavailable of MachineDeployment strictly to 1"
    eventually(
        "the deployment says what to set", lambda: any(advice in one["message"] for one in pool.events("MachineRefused"))
    )
    assert {one["metadata"]["uid"] for one in pool.machines()} == before, "the old machines are left alone"
    pool.change(strategy={"rollingUpdate": {"maxUnavailable": 1}})
    eventually_is("both are replaced", 2, lambda: len(pool.machines(NEWER)), seconds=90)
    eventually_is("nothing else is left", 2, lambda: len(pool.machines()))
    gone(kkp, pool)


def test_a_machine_counts_until_its_last_finalizer_is_gone(kkp: Platform, cluster: UserCluster) -> None:
    give(kkp, 1)
    pool = Pool(cluster, "held", 1)
    eventually_is("it is available", 1, pool.available)
    (machine,) = pool.machines()
    path = f"{cluster.machines}/{machine['metadata']['name']}"
    finalizers = [*machine["metadata"]["finalizers"], "example.com/held"]
    cluster.api.merge(path, {"metadata": {"finalizers": finalizers}})
    pool.change(replicas=0)

    def is_held() -> bool:
        held: list[Any] = [one["metadata"].get("finalizers") for one in pool.machines()]
        return held == [["example.com/held"]]

    eventually("machine-controller has let it go", is_held)
    assert cluster.ask("another").code == 403
    cluster.api.merge(path, {"metadata": {"finalizers": []}})
    eventually("its room is free", lambda: cluster.ask("another", dry_run=True).code == 201, seconds=30)
    pool.delete()


@pytest.mark.usefixtures("replacing")
def test_a_rolling_update_at_the_limit_replaces_one_by_one_and_ends_within_it(kkp: Platform, cluster: UserCluster) -> None:
    give(kkp, 3)
    pool = Pool(cluster, "web", 3)
    eventually_is("three are available", 3, pool.available)
    most = 0

    def replaced() -> bool:
        nonlocal most
        most = max(most, len(pool.machines()))
        return len(pool.machines(NEWER)) == 3 == len(pool.machines())

    pool.change(template=template("web", kubelet=NEWER))
    eventually("all are replaced", replaced, seconds=90)
    assert most <= 4, "one more than there may be, at most"
    eventually_is("the project is within its quota", "3", lambda: used(kkp))
    gone(kkp, pool)
