"""What the server decides by itself on the way of a write, on the whole server but for HTTP."""

# ruff: noqa: E501 - rows and messages stand on one line

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.standalone.apiserver.server_kit import USER, Kit, eventually, quiet, request, running_kit
from ullage.standalone.apiserver.about.deprecations import deprecation
from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError

WIDGETS: Json = {
    "group": "example.com",
    "scope": "Namespaced",
    "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
    "versions": [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}}},
        }
    ],
}


def changed_by_webhook(kit: Kit, change: Callable[[Json], Json]) -> None:
    """From now on a mutating webhook puts this in the place of every object."""

    async def mutate(attrs: Attributes) -> list[str]:
        if attrs.object is not None:
            attrs.object = change(attrs.object)
        return []

    kit.server.webhooks.mutate = mutate  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("put", "message"),
    [
        pytest.param({"data": {"x": 5}}, "json: cannot unmarshal number into Go struct field ConfigMap.data of type string", id="a number for a text"),
        pytest.param({"data": [1]}, "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string", id="a list for a map"),
        pytest.param({"binaryData": {"x": "%"}}, "illegal base64 data at input byte 0", id="no base64"),
        pytest.param({"kind": "Nope"}, 'no kind "Nope" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"', id="another kind"),
    ],
)  # fmt: skip
async def test_what_a_webhook_breaks_is_told_in_the_decoder_s_words(put: Json, message: str, tmp_path: Path) -> None:
    async with running_kit(tmp_path, work=False) as kit:
        changed_by_webhook(kit, lambda obj: {**obj, **put})
        with pytest.raises(ApiError) as raised:
            await kit.create("configmaps", "a", namespace="default")
        assert (raised.value.code, raised.value.message) == (500, f"Internal error occurred: {message}")
        assert kit.get("configmaps", "a", namespace="default") is None


async def test_what_a_webhook_adds_is_read_like_a_body(tmp_path: Path) -> None:
    async with running_kit(tmp_path, work=False) as kit:
        changed_by_webhook(
            kit, lambda obj: {**obj, "unknown": 1, "spec": {**obj["spec"], "terminationGracePeriodSeconds": None}}
        )
        pod = await kit.create("pods", "a", namespace="default", spec={"containers": [{"name": "c", "image": "i"}]})
        assert "unknown" not in pod
        assert pod["spec"]["terminationGracePeriodSeconds"] == 30


async def test_a_custom_object_keeps_its_kind_and_loses_metadata_that_nobody_can_read(tmp_path: Path) -> None:
    async with running_kit(tmp_path) as kit:
        await kit.create("customresourcedefinitions", "widgets.example.com", spec=WIDGETS)
        await eventually(lambda: kit.server.registry.find("example.com", "v1", "widgets") is not None)
        changed_by_webhook(kit, lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": {"a": 5}}, "extra": 1})
        made = await kit.create("widgets", "a", namespace="default", size=1)
        assert (made["metadata"].get("labels"), made["size"], "extra" in made) == (None, 1, False)
        changed_by_webhook(kit, lambda obj: {**obj, "kind": "Gadget"})
        with pytest.raises(
            ApiError, match=r'^Gadget\.example\.com "b" is invalid: kind: Invalid value: "Gadget": must be Widget$'
        ):
            await kit.create("widgets", "b", namespace="default")


def exposed(**port: int) -> Json:
    return {"type": "NodePort", "ports": [{"port": 80, **port}]}


async def test_services_in_webhooks_at_one_moment_share_nothing(tmp_path: Path) -> None:
    async with running_kit(tmp_path, work=False) as kit:
        gate = kit.hold_webhooks()
        tasks = [asyncio.create_task(kit.create("services", f"s{at}", namespace="default", spec=exposed())) for at in range(20)]
        await eventually(lambda: len(gate.seen) == 20)
        gate.open.set()
        made = await asyncio.gather(*tasks)
        assert len({one["spec"]["clusterIP"] for one in made}) == 20
        assert len({one["spec"]["ports"][0]["nodePort"] for one in made}) == 20


async def test_a_refused_service_leaves_nothing_taken(tmp_path: Path) -> None:
    async with running_kit(tmp_path, work=False) as kit:

        async def refuse(attrs: Attributes) -> list[str]:
            raise ApiError(400, "", "no")

        allow, kit.server.webhooks.validate = kit.server.webhooks.validate, refuse  # type: ignore[method-assign]
        with pytest.raises(ApiError, match=r"^no$"):
            await asyncio.create_task(kit.create("services", "a", namespace="default", spec=exposed(nodePort=31000)))
        kit.server.webhooks.validate = allow  # type: ignore[method-assign]
        await asyncio.create_task(kit.create("services", "b", namespace="default", spec=exposed(nodePort=31000)))


async def test_a_webhook_is_told_no_name_when_a_collection_is_deleted(tmp_path: Path) -> None:
    async with running_kit(tmp_path, work=False) as kit:
        for name in ("a", "b"):
            await kit.create("configmaps", name, namespace="default", data={})
        seen: list[tuple[str, str]] = []

        async def validate(attrs: Attributes) -> list[str]:
            assert attrs.old is not None
            seen.append((attrs.name, attrs.old["metadata"]["name"]))
            return []

        kit.server.webhooks.validate = validate  # type: ignore[method-assign]
        asked = request("DELETE", "/api/v1/namespaces/default/configmaps")
        await kit.deleter.delete_collection(asked, kit.resource("configmaps"), USER)
        assert seen == [("", "a"), ("", "b")]


async def test_at_most_one_priority_class_is_the_default(tmp_path: Path) -> None:
    async with running_kit(tmp_path, work=False) as kit:
        await kit.create("priorityclasses", "first", value=1, globalDefault=True)
        await kit.change("priorityclasses", "first", lambda obj: obj.update(description="still the one"))
        text = 'priorityclasses.scheduling.k8s.io "second" is forbidden: PriorityClass first is already marked as default. '
        with pytest.raises(ApiError) as raised:
            await kit.create("priorityclasses", "second", value=2, globalDefault=True)
        assert raised.value.message == f"{text}Only one default can exist"
        pod = await kit.create("pods", "a", namespace="default", spec={"containers": [{"name": "c", "image": "i"}]})
        assert (pod["spec"]["priority"], pod["spec"]["priorityClassName"]) == (1, "first")


async def test_a_policy_that_nothing_would_apply_is_not_stored(tmp_path: Path) -> None:
    async with running_kit(tmp_path, work=False) as kit:
        with pytest.raises(ApiError, match="mutating admission policies are not enforced by this server"):
            await kit.create("mutatingadmissionpolicies", "m", spec={})


async def test_an_aggregated_role_follows_its_parts(tmp_path: Path) -> None:
    def rule(verb: str) -> Json:
        return {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": [verb]}

    def rules(name: str) -> Any:
        return (kit.get("clusterroles", name) or {}).get("rules")

    async with running_kit(tmp_path) as kit:
        gather = {"clusterRoleSelectors": [{"matchLabels": {"gather": "yes"}}]}
        await kit.create("clusterroles", "whole", aggregationRule=gather, rules=[rule("own")])
        await quiet(kit.server)
        assert rules("whole") == [rule("own")], "what somebody wrote stays until there is something to gather"
        for name, verb in (("b", "get"), ("a", "list")):
            await kit.create("clusterroles", name, metadata={"labels": {"gather": "yes"}}, rules=[rule(verb)])
        await quiet(kit.server)
        assert rules("whole") == [rule("list"), rule("get")]
        await kit.change("clusterroles", "whole", lambda obj: obj.update(rules=[rule("own")]))
        await quiet(kit.server)
        assert rules("whole") == [rule("list"), rule("get")]
        for name in ("a", "b"):
            await kit.delete("clusterroles", name)
        await quiet(kit.server)
        assert rules("whole") is None


async def test_the_policies_are_asked_on_the_way_of_a_write(tmp_path: Path) -> None:
    async with running_kit(tmp_path, work=False) as kit:
        rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
        spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "has(object.data)"}]}
        await kit.create("validatingadmissionpolicies", "p", spec=spec)
        await kit.create("validatingadmissionpolicybindings", "b", spec={"policyName": "p", "validationActions": ["Deny"]})
        await kit.create("configmaps", "good", namespace="default", data={"a": "b"})
        with pytest.raises(ApiError, match="failed expression: has"):
            await kit.create("configmaps", "bad", namespace="default")
        await kit.delete("validatingadmissionpolicybindings", "b")
        await kit.create("configmaps", "bad", namespace="default")


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        pytest.param([{"name": "v1", "served": True}], "", id="a version that is fine"),
        pytest.param(
            [{"name": "v1", "served": True, "deprecated": True}], "example.com/v1 Widget is deprecated", id="the only one"
        ),
        pytest.param(
            [
                {"name": "v1", "served": True, "deprecated": True},
                {"name": "v2", "served": True},
                {"name": "v3", "served": True},
            ],
            "example.com/v1 Widget is deprecated; use example.com/v3 Widget",
            id="the newest one is better",
        ),
        pytest.param(
            [{"name": "v1", "served": True, "deprecated": True}, {"name": "v2beta1", "served": True}, {"name": "v2"}],
            "example.com/v1 Widget is deprecated",
            id="a beta is no better, nor one that is not served",
        ),
        pytest.param([{"name": "v1", "deprecated": True, "deprecationWarning": "go"}], "go", id="its own words"),
    ],
)
def test_a_version_warns_of_itself(versions: list[Json], text: str) -> None:
    spec = {"versions": versions}
    assert deprecation(Resource("example.com", "v1", "widgets", "widget", "Widget", namespaced=True, custom=spec)) == text
