"""The kinds: explained to the last field, structural, and readable as KKP and machine-controller write them."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import msgspec
import pytest

from ullage.kube.crds.definitions import crd_of, undocumented
from ullage.kube.kinds import Kind
from ullage.projects.api.kkp import CLUSTERS, PROJECTS, SEEDS, SETTINGS
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MACHINE_SETS, MACHINES
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuotaStatus
from ullage.standalone.apiserver.crd.rules import default_crd, validate_crd
from ullage.standalone.apiserver.schema.custom import CustomSchema, compile_custom

Json = dict[str, Any]
KINDS = (PROJECT_QUOTAS, PROJECTS, CLUSTERS, SEEDS, SETTINGS, MACHINES, MACHINE_SETS, MACHINE_DEPLOYMENTS)
EACH = [pytest.param(kind, id=kind.plural) for kind in KINDS]


@pytest.mark.parametrize("kind", EACH)
def test_every_field_is_explained(kind: Kind[Any]) -> None:
    assert undocumented(crd_of(kind)) == []


@pytest.mark.parametrize("kind", EACH)
def test_the_definition_is_structural(kind: Kind[Any]) -> None:
    crd = crd_of(kind)
    default_crd(crd)
    assert [str(error) for error in validate_crd(crd)] == []


def test_only_seeds_and_machines_are_in_namespaces() -> None:
    assert [kind.plural for kind in KINDS if kind.namespaced] == ["seeds", "machines", "machinesets", "machinedeployments"]


def test_whatever_belongs_to_others_is_never_written_as_a_whole() -> None:
    assert [kind.plural for kind in KINDS if kind.whole] == ["resourcequotas"]


def test_machines_have_no_status_subresource_as_those_of_kkp_have_none() -> None:
    assert [kind.plural for kind in KINDS if not kind.status] == ["kubermaticsettings", "machines"]


# --- quotas ----------------------------------------------------------------------------------------------------------


@cache
def schema() -> CustomSchema:
    return compile_custom(crd_of(PROJECT_QUOTAS)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def quota(limits: Json, *, subject: str = "abc", name: str = "project-abc") -> Json:
    return {
        "apiVersion": "kubermatic.k8c.io/v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"subject": {"name": subject, "kind": "project"}, "quota": limits},
    }


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({}, id="no limit at all"),
        pytest.param({"cpu": "5", "memory": "10Gi", "storage": "1T"}, id="all three, as quantities"),
        pytest.param({"cpu": 5, "memory": 0}, id="whole numbers, and zero"),
        pytest.param({"cpu": "1500m", "memory": "1e3", "storage": "+.5Gi"}, id="every way to write a quantity"),
        pytest.param({"cpu": None}, id="null is absent"),
    ],
)
def test_what_kubernetes_takes_for_an_amount_is_taken(limits: Json) -> None:
    given = quota(limits)
    schema().default(given)
    assert schema().validate(given) == []
    found = msgspec.convert(given, type=PROJECT_QUOTAS.type).spec.quota
    assert msgspec.to_builtins(found) == {name: limit for name, limit in limits.items() if limit is not None}


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        pytest.param({"cpu": "-1"}, "spec.quota.cpu", id="less than nothing, as text"),
        pytest.param({"memory": -1}, "spec.quota.memory", id="less than nothing, as a number"),
        pytest.param({"storage": "lots"}, "spec.quota.storage", id="no quantity"),
        pytest.param({"storage": "1 Gi"}, "spec.quota.storage", id="a space in it"),
        pytest.param({"cpu": 1.5}, "spec.quota.cpu", id="a fraction that is no text"),
        pytest.param({"cpu": "1" * 65}, "spec.quota.cpu", id="more digits than any amount has"),
    ],
)
def test_what_is_no_amount_is_refused_by_the_schema_and_named(limits: Json, field: str) -> None:
    assert {error.field for error in schema().validate(quota(limits)) if error.field != "<nil>"} == {field}


def test_the_subject_cannot_be_changed() -> None:
    old = quota({}, subject="abc")
    new = deepcopy(old)
    new["spec"]["subject"]["name"] = "other"
    said = [str(error) for error in schema().validate(new, old)]
    assert any("Operation not permitted: updating ResourceQuota Subject is not allowed!" in one for one in said)
    assert schema().validate(quota({"cpu": "7"}), old) == []


def test_a_quota_is_called_after_its_subject() -> None:
    (error,) = schema().validate(quota({}, name="mine"))
    assert (error.field, "project-<id>" in error.body) == ("metadata.name", True)


def test_the_subject_is_a_project_unless_somebody_says_so() -> None:
    given = quota({})
    del given["spec"]["subject"]["kind"]
    schema().default(given)
    assert given["spec"]["subject"] == {"name": "abc", "kind": "project"}
    given["spec"]["subject"]["kind"] = "user"
    assert "spec.subject.kind" in {error.field for error in schema().validate(given)}


def test_names_on_the_wire_are_kkp_s_and_zero_is_not_absent() -> None:
    body = {
        "metadata": {"name": "project-abc"},
        "spec": {"subject": {"name": "abc", "kind": "project"}, "quota": {"cpu": "5", "memory": 0}},
        "status": {"globalUsage": {"cpu": "0", "memory": "0", "storage": "0"}, "localUsage": {"cpu": "3"}},
    }
    assert msgspec.to_builtins(msgspec.convert(body, type=PROJECT_QUOTAS.type)) == body
    assert msgspec.to_builtins(ResourceQuotaStatus()) == {}


# --- clusters --------------------------------------------------------------------------------------------------------


def test_the_provider_of_a_cluster_cannot_be_changed() -> None:
    rules = compile_custom(crd_of(CLUSTERS)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    names = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "Cluster", "metadata": {"name": "c1"}}
    old, new = (names | {"spec": {"cloud": {"dc": "eu", "providerName": one}}} for one in ("aws", "eks"))
    (error,) = rules.validate(new, old)
    assert error.field == "spec.cloud.providerName"
    assert "the provider of a cluster cannot be changed: make another one" in error.body
    moved = names | {"spec": {"cloud": {"dc": "us", "providerName": "aws"}}}
    assert rules.validate(moved, old) == [] == rules.validate(old, names | {"spec": {}})


# --- the others ------------------------------------------------------------------------------------------------------


def test_what_kkp_writes_is_read_under_its_own_names() -> None:
    cluster = msgspec.convert(
        {
            "metadata": {"name": "c1", "labels": {"project-id": "abc"}},
            "spec": {"humanReadableName": "web", "cloud": {"dc": "eu", "providerName": "aws", "aws": {}}, "pause": True},
            "status": {"resourceUsage": {"cpu": "2"}, "namespaceName": "cluster-c1", "extendedHealth": {}},
        },
        type=CLUSTERS.type,
    )
    assert cluster.status.resource_usage is not None
    assert (cluster.spec.cloud.provider_name, cluster.status.resource_usage.cpu, cluster.spec.pause) == ("aws", "2", True)
    seed = msgspec.convert(
        {"spec": {"kubeconfig": {"kind": "Secret", "name": "k", "namespace": "kubermatic", "fieldPath": "f"}}}, type=SEEDS.type
    )
    assert (seed.spec.kubeconfig.name, seed.spec.kubeconfig.field_path) == ("k", "f")
    setting = msgspec.convert({"spec": {"defaultQuota": {"quota": {"cpu": "4"}}, "customLinks": []}}, type=SETTINGS.type)
    assert setting.spec.default_quota is not None
    assert setting.spec.default_quota.quota.cpu == "4"
    assert msgspec.convert({"spec": {"customLinks": []}}, type=SETTINGS.type).spec.default_quota is None


@pytest.mark.parametrize("value", [{"cloudProvider": "aws"}, "odd", ["odd"], 7, None])
def test_a_machine_s_provider_spec_is_read_whatever_its_owner_has_written(value: object) -> None:
    body = {"metadata": {"name": "m"}, "spec": {"providerSpec": {"value": value}, "providerID": "aws:///i-1"}}
    found = msgspec.convert(body, type=MACHINES.type)
    assert (found.spec.provider_spec.value, found.spec.provider_id) == (value, "aws:///i-1")


def test_what_machine_controller_writes_is_read_under_its_own_names() -> None:
    rolling = {"maxUnavailable": 0, "maxSurge": "25%"}
    spec = {"replicas": 3, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}, "paused": True}
    found = msgspec.convert({"spec": spec, "status": {"updatedReplicas": 2}}, type=MACHINE_DEPLOYMENTS.type)
    assert found.spec.strategy is not None
    assert msgspec.to_builtins(found.spec.strategy.rolling_update) == rolling
    assert (found.spec.replicas, found.spec.paused, found.status.updated_replicas) == (3, True, 2)
    owned = msgspec.convert({"spec": {"replicas": 0}, "status": {"readyReplicas": 1}}, type=MACHINE_SETS.type)
    assert (owned.spec.replicas, owned.status.ready_replicas) == (0, 1)
