"""Whether a core ResourceQuota has room for the pod of a migration: what is left of each resource that the quota names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ullage.headroom.core_quotas import PodAsk, shortage_text, shortages
from ullage.kube.builtin.core import CoreQuota
from ullage.kube.builtin.watched_pods import WatchedPod
from ullage.ledger.amounts import Amounts
from ullage.pods.resources import parsed
from ullage.quantity import Quantity

Json = dict[str, Any]
ASK = PodAsk(limits=parsed({"cpu": "1015m", "memory": "1Gi"}), requests=parsed({"cpu": "100m", "memory": "1Gi"}))
COST = PodAsk.of_cost(Amounts.parse({"cpu": "1", "memory": "1Gi"}))


def quota(hard: Json, used: Json, name: str = "default-q", **spec: Any) -> CoreQuota:
    body = {"metadata": {"name": name}, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": used}}
    return msgspec.convert(body, CoreQuota)


def pod(cpu: str, *, phase: str = "Running", deleted: bool = False) -> WatchedPod:
    limits = {"resources": {"limits": {"cpu": cpu, "memory": "1Gi"}, "requests": {"cpu": "100m"}}}
    meta = {"deletionTimestamp": "now"} if deleted else {}
    return msgspec.convert({"metadata": meta, "spec": {"containers": [limits]}, "status": {"phase": phase}}, WatchedPod)


@pytest.mark.parametrize(
    ("hard", "used", "short"),
    [
        pytest.param({}, {}, [], id="a quota of nothing"),
        pytest.param({"limits.cpu": "4"}, {"limits.cpu": "2985m"}, [], id="exactly full is room enough"),
        pytest.param({"limits.cpu": "4"}, {"limits.cpu": "2986m"}, ["limits.cpu"], id="a thousandth more is not"),
        pytest.param({"limits.memory": "5Gi"}, {"limits.memory": "4Gi"}, [], id="memory to the byte"),
        pytest.param({"limits.memory": "5Gi"}, {"limits.memory": "4294967297"}, ["limits.memory"], id="a byte too much"),
        pytest.param({"requests.cpu": "1"}, {"requests.cpu": "900m"}, [], id="a request is less than the limit"),
        pytest.param({"cpu": "1"}, {"cpu": "901m"}, ["cpu"], id="a request by its short name"),
        pytest.param({"requests.memory": "1Gi"}, {"requests.memory": "1"}, ["requests.memory"], id="a request of memory"),
        pytest.param({"pods": "3"}, {"pods": "2"}, [], id="one more pod"),
        pytest.param({"pods": "3"}, {"pods": "3"}, ["pods"], id="no more pods"),
        pytest.param({"count/pods": "3"}, {"count/pods": "3"}, ["count/pods"], id="no more pods, counted as objects"),
        pytest.param({"secrets": "1", "requests.storage": "1"}, {"secrets": "9"}, [], id="what a pod does not take"),
        pytest.param(
            {"limits.cpu": "1", "pods": "0"}, {}, ["limits.cpu", "pods"], id="each resource that is short is told, used or not"
        ),
        pytest.param({"limits.cpu": "much"}, {}, [], id="an amount that cannot be read refuses nothing"),
    ],
)
def test_what_is_left_of_a_quota(hard: Json, used: Json, short: list[str]) -> None:
    assert [one.name for one in shortages([quota(hard, used)], ASK)] == short


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        pytest.param({}, True, id="a quota for all pods"),
        pytest.param({"scopes": ["NotTerminating", "NotBestEffort"]}, True, id="for pods that run on and ask for something"),
        pytest.param({"scopes": ["Terminating"]}, False, id="for pods with a deadline"),
        pytest.param({"scopes": ["BestEffort"]}, False, id="for pods that ask for nothing"),
        pytest.param({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass"}]}}, False, id="by priority"),
    ],
)
def test_only_a_quota_that_is_surely_for_the_pod_refuses_it(spec: Json, counts: bool) -> None:
    full = quota({"limits.cpu": "4"}, {"limits.cpu": "4"}, **spec)
    assert bool(shortages([full], ASK)) is counts


def test_pods_of_other_migrations_that_are_not_there_yet_take_room() -> None:
    half = quota({"limits.cpu": "4", "pods": "5"}, {"limits.cpu": "2", "pods": "3"})
    assert not shortages([half], COST, waiting=[COST])
    found = shortages([half], COST, waiting=[COST, COST])
    assert [(one.name, str(one.waiting)) for one in found] == [("limits.cpu", "2"), ("pods", "2")]


@pytest.mark.parametrize(
    ("pods", "short"),
    [
        pytest.param([], [], id="a pod is gone, and the quota was not counted since"),
        pytest.param([pod("3"), pod("1", deleted=True)], [], id="a pod is being deleted"),
        pytest.param([pod("3"), pod("1", phase="Succeeded")], [], id="a pod is over"),
        pytest.param([pod("3001m")], ["limits.cpu"], id="the pods that are there take too much"),
        pytest.param([pod("3"), pod("2")], ["limits.cpu", "requests.cpu"], id="pods that the quota does not count yet"),
    ],
)
def test_a_quota_that_counts_pods_which_are_gone_is_not_believed(pods: list[WatchedPod], short: list[str]) -> None:
    hard = {"limits.cpu": "4", "requests.cpu": "250m"}
    found = shortages([quota(hard, {"limits.cpu": "4", "requests.cpu": "200m"})], replace(ASK, limits=COST.limits), pods=pods)
    assert [one.name for one in found] == short
    assert all(one.used <= Quantity.parse("4") for one in found)


def test_the_text_has_every_number_of_the_quota_and_what_is_free_of_the_share() -> None:
    quotas = [
        quota({"limits.cpu": "4"}, {"limits.cpu": "3045m"}),
        quota({"limits.memory": "5Gi"}, {"limits.memory": "4565144832"}, name="other"),
    ]
    found = shortages(quotas, ASK, waiting=[PodAsk.of_cost(Amounts.parse({"cpu": "1"}))])
    assert shortage_text(found, "team", free=Amounts.parse({"cpu": "1", "memory": "2560Mi"})) == (
        "the pod that the VM would move to does not fit into the namespace's own quota, although the maintenance share has"
        " 1 core of cpu and 2.5Gi of memory free: ResourceQuota default-q: limits.cpu: asked 1.02 cores, used 3.05 cores,"
        " 1 core waited for by other migrations, limit 4 cores; ResourceQuota other: limits.memory: asked 1Gi, used 4.26Gi,"
        " limit 5Gi. Next: kubectl describe resourcequota default-q -n team, then stop pods that are no VMs, or have that quota"
        " raised"
    )
