"""The official Python client: typed, dynamic, watching; nothing in it knows which server answers."""

from __future__ import annotations

import threading
from typing import Any

import kubernetes
import pytest
from kubernetes.client import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

from .api import Api
from .kinds import GROUP, ROOT_CA, configmap, deployment, gauge, throwaway

# The generated annotations refuse the plain dicts that the client documents and takes.
client: Any = kubernetes.client
config: Any = kubernetes.config
dynamic: Any = kubernetes.dynamic
watch: Any = kubernetes.watch

PLACE = {"group": GROUP, "version": "v1", "plural": "gauges"}


@pytest.fixture(scope="module")
def connection(api: Api) -> Any:
    return config.new_client_from_config(config_file=str(api.plane.kubeconfig))


@pytest.fixture(scope="module")
def core(connection: Any) -> Any:
    return client.CoreV1Api(connection)


@pytest.fixture(scope="module")
def custom(connection: Any) -> Any:
    return client.CustomObjectsApi(connection)


@pytest.fixture(scope="module")
def anything(connection: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return dynamic.DynamicClient(connection, cache_file=str(tmp_path_factory.mktemp("discovery") / "cache.json"))


def test_typed_objects_go_round(core: Any, namespace: str) -> None:
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a", labels={"x": "y"}), data={"k": "v"})
    made = core.create_namespaced_config_map(namespace, body)
    assert made.metadata.creation_timestamp.tzinfo is not None
    read = core.read_namespaced_config_map("a", namespace)
    assert (read.data, read.metadata.labels, read.metadata.uid) == ({"k": "v"}, {"x": "y"}, made.metadata.uid)
    read.data = {"k": "w"}
    assert core.replace_namespaced_config_map("a", namespace, read).data == {"k": "w"}
    deleted: Any = core.delete_namespaced_config_map("a", namespace)
    assert (deleted if isinstance(deleted, dict) else deleted.to_dict())["status"] == "Success"
    assert [item.metadata.name for item in core.list_namespaced_config_map(namespace).items] == [ROOT_CA]


def test_typed_pods_and_deployments(core: Any, connection: Any, namespace: str) -> None:
    apps = client.AppsV1Api(connection)
    made = apps.create_namespaced_deployment(namespace, deployment("web", replicas=2))
    assert made.spec.strategy.rolling_update.max_surge == "25%"
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    assert (scale.spec.replicas, scale.status.selector) == (2, "app=web")
    apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 5}})
    assert apps.read_namespaced_deployment("web", namespace).spec.replicas == 5
    status = {"status": {"replicas": 5, "readyReplicas": 1, "observedGeneration": 2}}
    assert apps.patch_namespaced_deployment_status("web", namespace, status).status.ready_replicas == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param({"data": {"k": None, "n": "1"}}, {"n": "1", "o": "2"}, id="a dict is a strategic merge patch"),
        pytest.param(
            [{"op": "replace", "path": "/data/k", "value": "2"}, {"op": "remove", "path": "/data/o"}],
            {"k": "2"},
            id="a list is a JSON patch",
        ),
    ],
)
def test_patches_of_built_ins(core: Any, namespace: str, body: Any, expected: dict[str, str]) -> None:
    core.create_namespaced_config_map(namespace, configmap("a", {"k": "1", "o": "2"}))
    assert core.patch_namespaced_config_map("a", namespace, body).data == expected


def test_errors_carry_status_and_reason(core: Any, namespace: str) -> None:
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_config_map("missing", namespace)
    assert (missing.value.status, missing.value.reason) == (404, "Not Found")
    assert '"reason":"NotFound"' in str(missing.value.body)
    core.create_namespaced_config_map(namespace, configmap("a"))
    with pytest.raises(ApiException) as twice:
        core.create_namespaced_config_map(namespace, configmap("a"))
    assert (twice.value.status, twice.value.reason) == (409, "Conflict")
    stale = core.read_namespaced_config_map("a", namespace)
    core.patch_namespaced_config_map("a", namespace, {"data": {"k": "v"}})
    with pytest.raises(ApiException) as conflict:
        core.replace_namespaced_config_map("a", namespace, stale)
    assert conflict.value.status == 409
    with pytest.raises(ApiException) as invalid:
        core.create_namespaced_config_map(namespace, configmap("Capital"))
    assert (invalid.value.status, invalid.value.reason) == (422, "Unprocessable Entity")


def test_pages(core: Any, namespace: str) -> None:
    for number in range(7):
        core.create_namespaced_config_map(namespace, configmap(f"n{number}"))
    names: list[str] = []
    token: str | None = None
    counts: list[int | None] = []
    while True:
        page = core.list_namespaced_config_map(namespace, limit=3, _continue=token)
        names += [item.metadata.name for item in page.items]
        counts.append(page.metadata.remaining_item_count)
        token = page.metadata._continue
        if not token:
            break
    assert names == [ROOT_CA, *(f"n{number}" for number in range(7))]
    assert counts == [5, 2, None]


def test_a_watch_from_a_list_sees_what_comes_after(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, configmap("before"))
    start = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, configmap("after"))
    core.delete_namespaced_config_map("before", namespace)
    stream = watch.Watch()
    found = []
    for event in stream.stream(core.list_namespaced_config_map, namespace, resource_version=start, timeout_seconds=15):
        found.append((event["type"], event["object"].metadata.name))
        if len(found) == 2:
            stream.stop()
    assert found == [("ADDED", "after"), ("DELETED", "before")]
    assert stream.resource_version is not None


def test_a_watch_without_a_version_starts_with_everything(custom: Any, namespace: str) -> None:
    for name in ("a", "b"):
        custom.create_namespaced_custom_object(namespace=namespace, body=gauge(name), **PLACE)
    stream = watch.Watch()
    found = []
    for event in stream.stream(custom.list_namespaced_custom_object, namespace=namespace, timeout_seconds=15, **PLACE):
        found.append(event["object"]["metadata"]["name"])
        if len(found) == 2:
            stream.stop()
    assert sorted(found) == ["a", "b"]


def test_custom_objects_and_their_subresources(custom: Any, namespace: str) -> None:
    custom.create_namespaced_custom_object(namespace=namespace, body=gauge("a"), **PLACE)
    place = {**PLACE, "namespace": namespace, "name": "a"}
    custom.patch_namespaced_custom_object(body={"spec": {"capacity": 12}}, **place)
    custom.patch_namespaced_custom_object_status(body={"status": {"level": 3}}, **place)
    custom.patch_namespaced_custom_object_scale(body={"spec": {"replicas": 6}}, **place)
    found = custom.get_namespaced_custom_object(**place)
    assert (found["spec"]["capacity"], found["spec"]["replicas"], found["status"]) == (12, 6, {"level": 3})
    found["spec"]["capacity"] = 13
    assert custom.replace_namespaced_custom_object(body=found, **place)["metadata"]["generation"] == 4
    with pytest.raises(ApiException) as invalid:
        custom.patch_namespaced_custom_object(body={"spec": {"capacity": 0}}, **place)
    assert invalid.value.status == 422
    custom.delete_namespaced_custom_object(**place)
    assert custom.list_namespaced_custom_object(namespace=namespace, **PLACE)["items"] == []


def test_a_definition_is_made_used_and_removed(connection: Any, custom: Any, namespace: str) -> None:
    definitions = client.ApiextensionsV1Api(connection)
    group = f"{namespace}.example.com"
    definitions.create_custom_resource_definition(throwaway(group))
    stream = watch.Watch()
    name = f"crumbs.{group}"
    for event in stream.stream(
        definitions.list_custom_resource_definition, field_selector=f"metadata.name={name}", timeout_seconds=20
    ):
        conditions = event["object"].status.conditions or [] if event["object"].status else []
        if any(condition.type == "Established" and condition.status == "True" for condition in conditions):
            stream.stop()
    place = {"group": group, "version": "v1", "plural": "crumbs", "namespace": namespace}
    body = {"apiVersion": f"{group}/v1", "kind": "Crumb", "metadata": {"name": "a"}, "any": {"thing": 1}}
    custom.create_namespaced_custom_object(body=body, **place)
    assert custom.get_namespaced_custom_object(name="a", **place)["any"] == {"thing": 1}
    definitions.delete_custom_resource_definition(name)


def test_the_dynamic_client_discovers_and_writes(anything: Any, namespace: str) -> None:
    gauges = anything.resources.get(api_version=f"{GROUP}/v1", kind="Gauge")
    assert (gauges.namespaced, gauges.name) == (True, "gauges")
    made = gauges.create(body=gauge("a"), namespace=namespace)
    assert made.spec.mode == "Loose"
    assert (
        gauges.patch(
            body={"spec": {"capacity": 5}}, name="a", namespace=namespace, content_type="application/merge-patch+json"
        ).spec.capacity
        == 5
    )
    assert [item.metadata.name for item in gauges.get(namespace=namespace).items] == ["a"]
    assert (
        gauges.status.patch(
            body={"status": {"level": 1}}, name="a", namespace=namespace, content_type="application/merge-patch+json"
        ).status.level
        == 1
    )
    gauges.delete(name="a", namespace=namespace)
    with pytest.raises(NotFoundError):
        gauges.get(name="a", namespace=namespace)


def test_server_side_apply_through_the_dynamic_client(anything: Any, namespace: str) -> None:
    maps = anything.resources.get(api_version="v1", kind="ConfigMap")
    maps.server_side_apply(body=configmap("a", {"k": "1"}), namespace=namespace, field_manager="one")
    with pytest.raises(ConflictError):
        maps.server_side_apply(body=configmap("a", {"k": "2"}), namespace=namespace, field_manager="two")
    forced = maps.server_side_apply(
        body=configmap("a", {"k": "2"}), namespace=namespace, field_manager="two", force_conflicts=True
    )
    assert forced.data.k == "2"
    assert {entry.manager for entry in forced.metadata.managedFields} >= {"two"}


def test_the_dynamic_client_watches(anything: Any, core: Any, namespace: str) -> None:
    maps = anything.resources.get(api_version="v1", kind="ConfigMap")
    start = maps.get(namespace=namespace).metadata.resourceVersion
    core.create_namespaced_config_map(namespace, configmap("a"))
    for event in maps.watch(namespace=namespace, resource_version=start, timeout=10):
        assert (event["type"], event["object"].metadata.name) == ("ADDED", "a")
        break


def test_a_service_account_token_is_a_login(core: Any, api: Api, namespace: str) -> None:
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "robot"}})
    request = core.create_namespaced_service_account_token("robot", namespace, {"spec": {"expirationSeconds": 900}})
    settings = client.Configuration(host=api.plane.url)
    settings.verify_ssl = api.plane.ca_file is not None
    settings.ssl_ca_cert = api.plane.ca_file
    settings.api_key = {"authorization": request.status.token}
    settings.api_key_prefix = {"authorization": "Bearer"}
    robot = client.ApiClient(settings)
    with pytest.raises(ApiException) as refused:
        client.CoreV1Api(robot).list_namespaced_pod(namespace)
    assert refused.value.status == 403
    who = client.AuthenticationV1Api(robot).create_self_subject_review({})
    assert who.status.user_info.username == f"system:serviceaccount:{namespace}:robot"


def test_access_reviews(connection: Any, namespace: str) -> None:
    access = client.AuthorizationV1Api(connection)
    asked = client.V1ResourceAttributes(namespace=namespace, verb="delete", resource="pods")
    mine = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=asked))
    assert access.create_self_subject_access_review(mine).status.allowed
    theirs = client.V1SubjectAccessReview(spec=client.V1SubjectAccessReviewSpec(user="nobody", resource_attributes=asked))
    assert not access.create_subject_access_review(theirs).status.allowed


def test_an_informer_keeps_up(core: Any, namespace: str) -> None:
    informer = pytest.importorskip("kubernetes.informer")
    core.create_namespaced_config_map(namespace, configmap("before"))
    shared = informer.SharedInformer(
        list_func=core.list_namespaced_config_map,
        namespace=namespace,
        resync_period=1,  # also the length of each watch; without it, stop() may wait for an event that never comes
    )
    added, seen = threading.Event(), []

    def on_add(obj: Any) -> None:
        seen.append(obj.metadata.name)
        if "after" in seen:
            added.set()

    shared.add_event_handler(informer.ADDED, on_add)
    shared.start()
    try:
        core.create_namespaced_config_map(namespace, configmap("after"))
        assert added.wait(20), seen
        assert sorted(set(seen)) == ["after", "before", ROOT_CA]
    finally:
        shared.stop()


def test_versions_groups_and_resources(connection: Any) -> None:
    assert client.VersionApi(connection).get_code().major == "1"
    groups = {group.name for group in client.ApisApi(connection).get_api_versions().groups}
    assert {"apps", "batch", "rbac.authorization.k8s.io", GROUP} <= groups
    resources = client.CoreV1Api(connection).get_api_resources()
    assert {"pods", "pods/status", "namespaces/finalize"} <= {resource.name for resource in resources.resources}
    assert client.CoreApi(connection).get_api_versions().versions == ["v1"]
