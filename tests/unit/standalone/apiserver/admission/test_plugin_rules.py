"""Steps of the server's own admission, one by one: the lives of namespaces, and the default storage class."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.standalone.apiserver.admission.webhook_server import CLAIMS, NAMESPACE, NAMESPACES, NODES, attributes
from ullage.standalone.apiserver.admission.plugins import admit
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError


class Entry:
    def __init__(self, obj: Json) -> None:
        self.data = msgspec.json.encode(obj)

    def obj(self) -> Json:
        found: Json = msgspec.json.decode(self.data)
        return found


class Store:
    """Namespaces and storage classes, by name."""

    def __init__(self, *objects: Json) -> None:
        self.found = {obj["metadata"]["name"]: Entry(obj) for obj in objects}

    def get(self, storage: str, namespace: str, name: str) -> Entry | None:
        return self.found.get(name) if (storage, namespace) == ("namespaces", "") else None

    def items(self, storage: str, namespace: str = "") -> list[Entry]:
        return list(self.found.values()) if storage == "storageclasses.storage.k8s.io" else []


GOING = {"metadata": {"name": "team", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Terminating"}}


def test_nothing_is_created_in_a_namespace_that_does_not_exist() -> None:
    with pytest.raises(ApiError) as raised:
        admit(attributes(), Store())
    assert (raised.value.code, raised.value.message) == (404, 'namespaces "team" not found')


@pytest.mark.parametrize(
    "attrs",
    [
        pytest.param({"operation": "UPDATE"}, id="an update"),
        pytest.param({"operation": "DELETE", "object": None}, id="a delete"),
        pytest.param({"resource": NODES, "namespace": ""}, id="a cluster-scoped object"),
        pytest.param({"resource": NAMESPACES, "namespace": "", "name": "new"}, id="a namespace itself"),
        pytest.param(
            {
                "resource": Resource(
                    "authorization.k8s.io", "v1", "localsubjectaccessreviews", "x", "LocalSubjectAccessReview", namespaced=True
                )
            },
            id="a question about rights",
        ),
    ],
)
def test_what_needs_no_living_namespace(attrs: Json) -> None:
    admit(attributes(**attrs), Store())
    admit(attributes(**attrs), Store(GOING))


@pytest.mark.parametrize(
    ("attrs", "name"),
    [
        pytest.param({}, "a", id="by name"),
        pytest.param({"name": "", "object": {"metadata": {"generateName": "a-"}}}, "a-", id="by generated name"),
    ],
)
def test_nothing_is_created_in_a_namespace_that_goes(attrs: Json, name: str) -> None:
    with pytest.raises(ApiError) as raised:
        admit(attributes(**attrs), Store(GOING))
    assert raised.value.code == 403
    assert raised.value.message == (
        f'configmaps "{name}" is forbidden: unable to create new content in namespace team because it is being terminated'
    )
    assert raised.value.details == {
        "name": name,
        "kind": "configmaps",
        "causes": [
            {
                "reason": "NamespaceTerminating",
                "message": "namespace team is being terminated",
                "field": "metadata.namespace",
            }
        ],
    }


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_stay(name: str) -> None:
    with pytest.raises(ApiError) as raised:
        admit(attributes(resource=NAMESPACES, operation="DELETE", name=name, object=None), Store())
    assert (raised.value.code, raised.value.message) == (
        403,
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
    )


def storage_class(
    name: str, born: str, default: str = "true", key: str = "storageclass.kubernetes.io/is-default-class"
) -> Json:
    return {"metadata": {"name": name, "creationTimestamp": born, "annotations": {key: default}}}


OLD = storage_class("old", "2025-01-01T00:00:00Z")
NEW = storage_class("new", "2026-01-01T00:00:00Z")
BETA = storage_class("beta", "2024-01-01T00:00:00Z", key="storageclass.beta.kubernetes.io/is-default-class")
PLAIN = storage_class("plain", "2027-01-01T00:00:00Z", "false")


@pytest.mark.parametrize(
    ("claim", "classes", "chosen"),
    [
        pytest.param({"spec": {}}, [OLD, NEW, PLAIN], "new", id="the newest default"),
        pytest.param(
            {"spec": {}}, [NEW, storage_class("also", "2026-01-01T00:00:00Z")], "also", id="between equals the first name"
        ),
        pytest.param({"spec": {}}, [BETA], "beta", id="the old annotation"),
        pytest.param({"spec": {}}, [PLAIN], None, id="no default"),
        pytest.param({"spec": {"storageClassName": ""}}, [NEW], "", id="no class on purpose"),
        pytest.param({"spec": {"storageClassName": "mine"}}, [NEW], "mine", id="a class of its own"),
        pytest.param(
            {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}, "spec": {}},
            [NEW],
            None,
            id="a class by annotation",
        ),
    ],
)
def test_the_default_storage_class(claim: Json, classes: list[Json], chosen: str | None) -> None:
    attrs = attributes(resource=CLAIMS, object=claim)
    admit(attrs, Store(NAMESPACE, *classes))
    assert attrs.object is not None
    assert attrs.object["spec"].get("storageClassName") == chosen
