"""Workloads that nobody plays say so once, in their status and in an Event."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.standalone.world.builders import GOING
from tests.unit.standalone.world.fake_api import FakeApi, Told
from ullage.clock import SystemClock
from ullage.kube.builtin.apps import DAEMON_SETS, DEPLOYMENTS
from ullage.kube.builtin.batch import CRON_JOBS
from ullage.kube.builtin.core import Workload, WorkloadSpec, WorkloadStatus
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind, Meta
from ullage.standalone.world.controllers.unsupported import CONDITIONS, UnsupportedController, status_of

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TEXT = (
    "No pods are made for a Deployment on this machine, and none will be: "
    "it plays Pods, Jobs and StatefulSets only. On a cluster the rest works."
)
SAID = {
    "type": "Progressing",
    "status": "False",
    "reason": "NotSupported",
    "message": TEXT,
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}
FOREIGN = {"type": "Available", "status": "False", "reason": "Mine"}


class Frozen(SystemClock):
    def now(self) -> datetime:
        return NOW


def workload(*, going: bool = False, conditions: tuple[Any, ...] = (), **spec: Any) -> Workload:
    meta = Meta(name="web", namespace="default", uid="u", generation=3, deletion_timestamp=GOING if going else None)
    return Workload(metadata=meta, spec=WorkloadSpec(**spec), status=WorkloadStatus(conditions=conditions))


@pytest.mark.parametrize(
    ("found", "conditions"),
    [
        pytest.param(workload(replicas=2), (SAID,), id="a Deployment that wants pods"),
        pytest.param(workload(conditions=(FOREIGN,)), (FOREIGN, SAID), id="what others say stays"),
        pytest.param(
            workload(conditions=({"type": "Progressing", "status": "True"},)), (SAID,), id="its own condition is taken over"
        ),
        pytest.param(
            workload(conditions=({**SAID, "lastTransitionTime": "earlier"},)),
            ({**SAID, "lastTransitionTime": "earlier"},),
            id="what was said keeps its time",
        ),
        pytest.param(workload(replicas=0), (), id="one that wants no pods"),
        pytest.param(workload(going=True), (), id="one that is going"),
    ],
)
def test_a_deployment_says_that_nobody_plays_it(found: Workload, conditions: tuple[Any, ...]) -> None:
    assert status_of(DEPLOYMENTS, found, now=NOW).conditions == conditions


class Scene:
    """One process after another, each with caches of what is there when it starts."""

    def __init__(self, kind: Kind[Workload], found: Workload) -> None:
        self.kind, self.api, self.told = kind, FakeApi(), Told()
        self.api.put(kind, found)

    async def process(self) -> None:
        cache = self.api.wiring().cache(self.kind)
        one = UnsupportedController(self.api.client, self.told.recorder, clock=Frozen(), kind=self.kind, workloads=cache)
        await one.reconcile(Key("default", "web"))


@pytest.mark.parametrize("kind", [kind for kind, condition in CONDITIONS.items() if condition], ids=lambda kind: kind.kind)
async def test_it_is_written_and_told_once(kind: Kind[Workload]) -> None:
    scene = Scene(kind, workload())
    for _ in range(3):
        await scene.process()
    assert scene.api.writes == [f"{kind.plural}/status web"]
    assert scene.told.reasons == ["NotSupported"]


async def test_a_new_generation_is_noted_without_another_event() -> None:
    scene = Scene(DAEMON_SETS, workload())
    await scene.process()
    scene.api.objects[DAEMON_SETS.name, Key("default", "web")]["metadata"]["generation"] = 4
    await scene.process()
    assert scene.api.objects[DAEMON_SETS.name, Key("default", "web")]["status"]["observedGeneration"] == 4
    assert scene.told.reasons == ["NotSupported"]


async def test_a_cron_job_has_no_conditions_and_gets_the_event_alone() -> None:
    scene = Scene(CRON_JOBS, workload())
    await scene.process()
    assert (scene.api.writes, scene.told.reasons) == ([], ["NotSupported"])


async def test_a_suspended_cron_job_is_left_in_peace() -> None:
    scene = Scene(CRON_JOBS, workload(suspend=True))
    await scene.process()
    assert (scene.api.writes, scene.told.reasons) == ([], [])
