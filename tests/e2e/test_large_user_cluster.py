"""A user cluster with more than its seed holds of one: it stays as it was last seen while others go on, and is read again once
it has shrunk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.app.installer.roles import CONTROLLER, WEBHOOK
from ullage.ledger.api import LEDGERS, NAMESPACE

from .projects_scene import FORBIDDEN, SeedCluster, UserCluster, eventually_is
from .snapshot_scene import eventually

pytestmark = pytest.mark.slow

PROJECT = "large"
HEAVY = 300_000  # characters: four of them are more than a cluster may have
AGAIN = 60.0  # seconds: it is tried at most half a minute apart


@pytest.fixture
def seed() -> Iterator[SeedCluster]:
    directory = Path(tempfile.mkdtemp(prefix="ullage-"))
    made = SeedCluster("fra", directory / "fra", ("--cluster-memory", "1Mi"))
    try:
        made.processes.start(WEBHOOK, CONTROLLER)
        yield made
    finally:
        made.close()
        shutil.rmtree(directory)


def heavy(user: UserCluster, name: str) -> None:
    body = user.machine(name)
    body["spec"]["providerSpec"]["value"]["cloudProviderSpec"]["note"] = "n" * HEAVY
    answer = user.api.call("POST", user.machines, body)
    assert answer.code == 201, answer.raw


def test_a_cluster_that_is_too_large_is_told_frozen_and_read_again_when_it_has_shrunk(seed: SeedCluster) -> None:
    limits = {"machines": {"cpu": "20"}}
    ledger = {"apiVersion": LEDGERS.api_version, "kind": LEDGERS.kind, "metadata": {"name": f"project-{PROJECT}"}}
    seed.api.create(LEDGERS.path(NAMESPACE), {**ledger, "spec": {"limits": limits}})
    large, small = seed.add("large", PROJECT), seed.add("small", PROJECT)

    def cpu(user: UserCluster) -> str | None:
        return seed.usage(user.name).get("cpu")

    large.create("first")
    eventually_is("what is small is counted", "1", lambda: cpu(large))
    for number in range(4):
        heavy(large, f"heavy-{number}")
    eventually("it is told", lambda: "cluster large: what is watched there takes" in seed.processes.log())
    frozen = cpu(large)
    assert frozen in {"1", "2", "3", "4"}

    # Others are read, and what is asked for in the large one is decided by what was booked.
    small.create("other", cpu="3")
    eventually_is("the other one is counted", "3", lambda: cpu(small))
    assert large.ask("too-much", cpu="13").code == FORBIDDEN
    large.create("fits", cpu="5")
    assert cpu(large) == frozen, "what is not seen is not counted"

    for number in range(3):
        large.delete(f"heavy-{number}")
    # Machines of `fake` have no servers, so those that went count for nobody.
    eventually_is("it is read again", "7", lambda: cpu(large), seconds=AGAIN)
