"""Which objects a quota counts, and what it says afterwards."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from ullage.quantity import Quantity
from ullage.standalone.apiserver.admission.quotas.check import Fits, Growth, fit, recount

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PODS: Any = SimpleNamespace(group="", plural="pods", group_resource="pods")
CLAIMS: Any = SimpleNamespace(group="", plural="persistentvolumeclaims", group_resource="persistentvolumeclaims")
WIDGETS: Any = SimpleNamespace(group="example.com", plural="widgets", group_resource="widgets.example.com")


def quota(hard: Json, used: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"name": "q"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or dict.fromkeys(hard, "0")},
    }


def pod(cpu: str = "1", **spec: Any) -> Json:
    resources = {"requests": {"cpu": cpu}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}], **spec}}


def claim(size: str) -> Json:
    return {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": size}}}}


def used(found: Fits | str) -> list[dict[str, str]]:
    assert isinstance(found, Fits), found
    return [{name: str(quantity) for name, quantity in one.items()} for _, one in found.used]


def test_every_quota_that_counts_it_is_written() -> None:
    quotas = [quota({"pods": "2"}, {"pods": "1"}), quota({"requests.cpu": "4", "services": "1"}), quota({"secrets": "0"})]
    found = fit(Growth(PODS, pod(), None), quotas, NOW)
    assert used(found) == [{"pods": "2"}, {"requests.cpu": "1", "services": "0"}]


def test_of_an_update_only_the_growth_counts() -> None:
    quotas = [
        quota(
            {"requests.storage": "10Gi", "persistentvolumeclaims": "1"},
            {"requests.storage": "4Gi", "persistentvolumeclaims": "1"},
        )
    ]
    assert used(fit(Growth(CLAIMS, claim("10Gi"), claim("4Gi")), quotas, NOW)) == [
        {"requests.storage": "10Gi", "persistentvolumeclaims": "1"}
    ]
    refused = fit(Growth(CLAIMS, claim("11Gi"), claim("4Gi")), quotas, NOW)
    assert (
        refused
        == "exceeded quota: q, requested: requests.storage=7Gi, used: requests.storage=4Gi, limited: requests.storage=10Gi"
    )


def test_what_shrinks_fits_even_past_the_limit() -> None:
    quotas = [quota({"requests.storage": "1Gi"}, {"requests.storage": "4Gi"})]
    assert used(fit(Growth(CLAIMS, claim("3Gi"), claim("4Gi")), quotas, NOW)) == []


def test_custom_kinds_are_counted_by_their_full_names() -> None:
    quotas = [quota({"count/widgets.example.com": "0"})]
    assert fit(Growth(WIDGETS, {"metadata": {"name": "w"}}, None), quotas, NOW) == (
        "exceeded quota: q, requested: count/widgets.example.com=1, used: count/widgets.example.com=0, "
        "limited: count/widgets.example.com=0"
    )


@pytest.mark.parametrize(
    ("changed", "counted"),
    [
        pytest.param({}, "1", id="it runs"),
        pytest.param({"status": {"phase": "Failed"}}, "0", id="it has failed"),
        pytest.param(
            {"metadata": {"name": "p", "deletionTimestamp": "2025-12-31T23:59:00Z", "deletionGracePeriodSeconds": 30}},
            "0",
            id="it should have been gone for half a minute",
        ),
        pytest.param(
            {"metadata": {"name": "p", "deletionTimestamp": "2025-12-31T23:59:50Z", "deletionGracePeriodSeconds": 30}},
            "1",
            id="it may take its time to go",
        ),
    ],
)
def test_a_pod_counts_as_long_as_it_uses_something(changed: Json, counted: str) -> None:
    found = recount(quota({"requests.cpu": "1"}), [(PODS, [{**pod(), **changed}])], NOW)
    assert found == {"requests.cpu": Quantity.parse(counted)}


@pytest.mark.parametrize(
    ("scope", "spec", "counted"),
    [
        pytest.param({"scopes": ["NotBestEffort"]}, {}, True, id="asks for something"),
        pytest.param({"scopes": ["BestEffort"]}, {}, False, id="does not ask for nothing"),
        pytest.param({"scopes": ["NotTerminating", "NotBestEffort"]}, {}, True, id="all scopes hold"),
        pytest.param({"scopes": ["NotTerminating"]}, {"activeDeadlineSeconds": 5}, False, id="one scope does not hold"),
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["a"]}]}},
            {"priorityClassName": "b"},
            True,
            id="of another priority",
        ),
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]}},
            {"priorityClassName": "b"},
            False,
            id="of any priority",
        ),
        pytest.param(
            {"scopes": ["CrossNamespacePodAffinity"]},
            {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"namespaces": ["other"]}}]
                    }
                }
            },
            True,
            id="looks at pods of other namespaces",
        ),
        pytest.param({"scopes": ["CrossNamespacePodAffinity"]}, {}, False, id="looks at its own namespace"),
    ],
)
def test_scopes(scope: Json, spec: Json, counted: bool) -> None:
    found = fit(Growth(PODS, pod(**spec), None), [quota({"pods": "5"}, **scope)], NOW)
    assert bool(used(found)) is counted
