"""Which pods and claims a StatefulSet has, and in which order they come and go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.standalone.world.builders import GOING, pod
from ullage.kube.builtin.apps import Ordinals, StatefulSet, StatefulSetSpec, StatefulSetStatus, UpdateStrategy
from ullage.kube.builtin.core import Pod
from ullage.kube.kinds import Meta
from ullage.standalone.world.controllers.stateful_set_rules import (
    REVISION,
    StatefulSetPlan,
    plan_stateful_set,
    pod_for,
    revision,
)

CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def stateful_set(
    replicas: int = 3, *, image: str = "one", going: bool = False, status: StatefulSetStatus | None = None, **spec: Any
) -> StatefulSet:
    meta = Meta(name="db", namespace="default", uid="u", generation=4, deletion_timestamp=GOING if going else None)
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": image}]}}
    wanted = StatefulSetSpec(
        replicas=replicas,
        selector={"matchLabels": {"app": "db"}},
        template=template,
        service_name="db",
        volume_claim_templates=(CLAIM,),
        **spec,
    )
    return StatefulSet(metadata=meta, spec=wanted, status=status or StatefulSetStatus())


def member(number: int, *, ready: bool = True, phase: str = "Running", going: bool = False, image: str = "one") -> Pod:
    labels = {REVISION: revision(stateful_set(image=image))}
    return pod(name=f"db-{number}", phase=phase, ready=ready, going=going, labels=labels)


def told(plan: StatefulSetPlan | None) -> str:
    assert plan is not None
    names = [f"+{one['metadata']['name']}" for one in (*plan.claims, *plan.pods)]
    return " ".join([*names, *(f"-{one.metadata.name}" for one in plan.delete)])


PARALLEL: dict[str, Any] = {"pod_management_policy": "Parallel"}
ON_DELETE: dict[str, Any] = {"update_strategy": UpdateStrategy(type="OnDelete")}


@pytest.mark.parametrize(
    ("found", "pods", "plan"),
    [
        pytest.param(stateful_set(), [], "+data-db-0 +db-0", id="the first, with its claim"),
        pytest.param(stateful_set(), [member(0, ready=False)], "", id="the next waits for the first"),
        pytest.param(stateful_set(), [member(0)], "+data-db-1 +db-1", id="the next when the first is ready"),
        pytest.param(stateful_set(), [member(0), member(2)], "+data-db-1 +db-1", id="a gap is filled"),
        pytest.param(stateful_set(), [member(0, going=True)], "", id="one that goes is waited for"),
        pytest.param(stateful_set(), [member(0), member(1), member(2)], "", id="all are there"),
        pytest.param(
            stateful_set(2), [member(0, phase="Failed", ready=False), member(1)], "-db-0", id="one that is over goes first"
        ),
        pytest.param(stateful_set(1), [member(0), member(1), member(2)], "-db-2", id="the highest goes first"),
        pytest.param(stateful_set(1), [member(0), member(1), member(2, going=True)], "", id="one at a time"),
        pytest.param(stateful_set(0), [member(0)], "-db-0", id="down to none"),
        pytest.param(stateful_set(1, ordinals=Ordinals(start=5)), [], "+data-db-5 +db-5", id="numbers may begin later"),
        pytest.param(stateful_set(2, **PARALLEL), [], "+data-db-0 +data-db-1 +db-0 +db-1", id="all at once"),
        pytest.param(stateful_set(0, **PARALLEL), [member(0), member(1)], "-db-1 -db-0", id="away all at once"),
        pytest.param(stateful_set(2, image="two"), [member(0), member(1)], "-db-1", id="a new template, the highest first"),
        pytest.param(stateful_set(2, image="two"), [member(0), member(1, image="two")], "-db-0", id="then the next"),
        pytest.param(
            stateful_set(2, image="two"), [member(0), member(1, image="two", ready=False)], "", id="not before it is ready"
        ),
        pytest.param(stateful_set(2, image="two", **ON_DELETE), [member(0), member(1)], "", id="unless a person does it"),
        pytest.param(stateful_set(1), [member(0), pod(name="db-x"), pod(name="other-1")], "", id="other names do not count"),
    ],
)
def test_what_comes_and_goes(found: StatefulSet, pods: list[Pod], plan: str) -> None:
    assert told(plan_stateful_set(found, pods, claims=())) == plan


def test_a_claim_that_is_there_is_used_again() -> None:
    assert told(plan_stateful_set(stateful_set(), [], claims={"data-db-0"})) == "+db-0"


def test_a_set_that_goes_makes_nothing() -> None:
    assert plan_stateful_set(stateful_set(going=True), [], claims=()) is None


def test_what_the_status_says_during_an_update_and_after() -> None:
    old = revision(stateful_set())
    found = stateful_set(2, image="two", status=StatefulSetStatus(current_revision=old))
    during = plan_stateful_set(found, [member(0), member(1, image="two", ready=False)], claims=())
    assert during is not None
    assert during.status == StatefulSetStatus(
        observed_generation=4,
        replicas=2,
        ready_replicas=1,
        available_replicas=1,
        current_replicas=1,
        updated_replicas=1,
        current_revision=old,
        update_revision=revision(found),
    )
    after = plan_stateful_set(found, [member(0, image="two"), member(1, image="two")], claims=())
    assert after is not None
    assert (after.status.current_revision, after.status.current_replicas) == (revision(found), 2)


def test_the_pod_has_its_number_its_host_name_and_its_claim() -> None:
    made = pod_for(stateful_set(), 1)
    assert made["metadata"]["labels"] | {REVISION: ""} == {
        "app": "db",
        "statefulset.kubernetes.io/pod-name": "db-1",
        "apps.kubernetes.io/pod-index": "1",
        REVISION: "",
    }
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("db-1", "db")
    assert made["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]
