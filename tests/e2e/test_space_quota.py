"""The quota object: accepted by API servers, guarded by its schema, written by nobody but whoever administers quotas."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ullage.kube.crds.definitions import crd_of, to_yaml
from ullage.space.api import NAME, QUOTAS

from .api import Api
from .conftest import DEFINITIONS, wait_served
from .kubectl import Kubectl

Json = dict[str, Any]
GI = 2**30
# Names of this process's own: workers that share a cluster make and delete the kind independently.
MARK = uuid.uuid4().hex[:6]
KIND = dataclasses.replace(QUOTAS, group=f"q{MARK}.example.com", short_names=(f"hrq{MARK}",))
VM_LIMITS = "spec.snapshotLimit.vmTotalSnapshotSizeQuota"


@pytest.fixture(scope="module")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubectl-quota")


@pytest.fixture(scope="module")
def served(api: Api, kubectl_home: Path) -> Iterator[Api]:
    admin = Kubectl(api.plane, namespace="default", home=kubectl_home)
    ran = admin("apply", "--server-side", "--field-manager=ullage", "-f", "-", stdin=to_yaml(crd_of(KIND)))
    assert ran.err == "", "no warnings"
    wait_served(api, KIND.path())
    yield api
    api.call("DELETE", f"{DEFINITIONS}/{KIND.name}")


def quota(limit: Json, name: str = NAME) -> Json:
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": name},
        "spec": {"snapshotLimit": limit},
    }


@pytest.mark.parametrize(
    "limit",
    [
        pytest.param({}, id="none"),
        pytest.param({"namespaceTotalSnapshotSizeQuota": 10 * GI}, id="the namespace's"),
        pytest.param({"namespaceTotalSnapshotSizeQuota": 0}, id="zero, written out"),
        pytest.param({"namespaceTotalSnapshotSizeQuota": 2**63 - 1}, id="the most there is"),
        pytest.param({"vmTotalSnapshotSizeQuota": {"db-1.example": 1, "web": 0}}, id="two VMs'"),
        pytest.param({"vmTotalSnapshotSizeQuota": {f"vm-{n}": n for n in range(1000)}}, id="a thousand VMs'"),
    ],
)
def test_limits_that_can_be(served: Api, namespace: str, limit: Json) -> None:
    assert served.create(KIND.path(namespace), quota(limit))["spec"] == {"snapshotLimit": limit}


@pytest.mark.parametrize(
    ("limit", "field", "message"),
    [
        pytest.param(
            {"namespaceTotalSnapshotSizeQuota": -1},
            "spec.snapshotLimit.namespaceTotalSnapshotSizeQuota",
            "should be greater than or equal to 0",
            id="a negative limit of the namespace",
        ),
        pytest.param(
            {"vmTotalSnapshotSizeQuota": {"db": -1}},
            f"{VM_LIMITS}.db",
            "should be greater than or equal to 0",
            id="a negative limit of a VM",
        ),
        pytest.param(
            {"namespaceTotalSnapshotSizeQuota": "10Gi"},
            "spec.snapshotLimit.namespaceTotalSnapshotSizeQuota",
            "must be of type integer",
            id="a quantity where a number belongs",
        ),
        pytest.param({"vmTotalSnapshotSizeQuota": {"db": 0.5}}, f"{VM_LIMITS}.db", "must be of type int", id="half a byte"),
        pytest.param({"vmTotalSnapshotSizeQuota": {"db": 2**64}}, f"{VM_LIMITS}.db", "", id="more bytes than there can be"),
        pytest.param(
            {"vmTotalSnapshotSizeQuota": {"My VM": 1}}, VM_LIMITS, "names of virtual machines", id="a key that is no name"
        ),
        pytest.param(
            {"vmTotalSnapshotSizeQuota": {f"vm-{n}": n for n in range(1001)}},
            VM_LIMITS,
            "must have at most 1000",
            id="a thousand VMs and one",
        ),
    ],
)
def test_limits_that_cannot_be(served: Api, namespace: str, limit: Json, field: str, message: str) -> None:
    path = KIND.path(namespace)
    refused = served.call("POST", path, quota(limit))
    assert (refused.code, refused.reason) == (422, "Invalid"), refused.raw
    assert [(one["field"], message in one["message"]) for one in refused.causes if one["field"]][:1] == [(field, True)]
    served.create(path, quota({}))
    edited = served.call("PUT", f"{path}/{NAME}", {**served.get(f"{path}/{NAME}").obj, "spec": quota(limit)["spec"]})
    assert (edited.code, edited.causes) == (422, refused.causes)


def test_there_is_one_in_a_namespace_and_it_has_one_name(served: Api, namespace: str) -> None:
    refused = served.call("POST", KIND.path(namespace), quota({}, name="another"))
    assert refused.code == 422
    assert [one["field"] for one in refused.causes] == ["metadata.name"]
    assert f"the quota of a namespace is called {NAME}, and there is no other" in refused.message
