"""What patches and ownership read from a schema."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.standalone.apiserver.fields.shape import ABSENT, ANY, Shape
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import REF, load


def built_in(name: str) -> Shape:
    return Shape.of({"$ref": f"{REF}io.k8s.api.{name}"}, load())


def custom(**spec: Json) -> Shape:
    return Shape.of({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}, load())


def at(shape: Shape, path: str) -> Shape:
    for step in path.split("."):
        shape = shape.element() if step == "[]" else shape.field(step)
    return shape


POD = "core.v1.Pod"


@pytest.mark.parametrize(
    ("kind", "path", "attribute", "value"),
    [
        pytest.param(POD, "spec.containers", "list_type", "map", id="containers are a keyed list"),
        pytest.param(POD, "spec.containers", "map_keys", ("name",), id="containers are keyed by name"),
        pytest.param(POD, "spec.containers", "merge_key", "name", id="and merge by it"),
        pytest.param(POD, "spec.containers.[].ports", "map_keys", ("containerPort", "protocol"), id="ports have two keys"),
        pytest.param(POD, "spec.containers.[].ports", "merge_key", "containerPort", id="and merge by one"),
        pytest.param(POD, "spec.containers.[].ports", "key_defaults", {"protocol": "TCP"}, id="of which one has a default"),
        pytest.param(POD, "spec.volumes", "patch_strategy", ("merge", "retainKeys"), id="volumes are a union"),
        pytest.param(POD, "metadata.finalizers", "list_type", "set", id="finalizers are a set"),
        pytest.param(POD, "spec.tolerations", "list_type", "atomic", id="tolerations are one piece"),
        pytest.param(POD, "spec.nodeSelector", "atomic", True, id="so is the node selector"),
        pytest.param(POD, "metadata.labels", "atomic", False, id="labels are not"),
        pytest.param(
            "core.v1.PersistentVolume", "spec.claimRef", "atomic", False, id="a mark on the field goes before its type's"
        ),
        pytest.param("apps.v1.ControllerRevision", "data", "atomic", True, id="raw data are one piece"),
        pytest.param("apps.v1.Deployment", "spec.strategy", "patch_strategy", ("retainKeys",), id="marks beside a reference"),
    ],
)
def test_built_in(kind: str, path: str, attribute: str, value: Any) -> None:
    assert getattr(at(built_in(kind), path), attribute) == value


@pytest.mark.parametrize(
    ("kind", "parent", "field", "value"),
    [
        pytest.param("apps.v1.Deployment", "spec", "strategy", {}, id="a struct held by value is always there"),
        pytest.param("apps.v1.Deployment", "spec.strategy", "rollingUpdate", ABSENT, id="one behind a pointer is not"),
        pytest.param("apps.v1.Deployment", "spec.template.spec", "containers", None, id="a required list is null"),
        pytest.param("core.v1.ReplicationController", "spec", "template", ABSENT, id="a template behind a pointer"),
        pytest.param("core.v1.Event", "source", "component", ABSENT, id="an optional string"),
        pytest.param("core.v1.Pod", "spec.containers.[]", "name", "", id="a required string is empty"),
    ],
)
def test_what_is_there_unwritten(kind: str, parent: str, field: str, value: Any) -> None:
    assert at(built_in(kind), parent).implied(field) == value


def test_custom_kinds_have_nothing_unwritten() -> None:
    assert custom(a={"type": "object", "properties": {}}).field("spec").implied("a") is ABSENT


@pytest.mark.parametrize(
    ("schema", "attribute", "value"),
    [
        pytest.param({"type": "array", "items": {"type": "string"}}, "list_type", "atomic", id="a list is one piece"),
        pytest.param({"type": "array", "x-kubernetes-list-type": "set"}, "list_type", "set", id="unless it is a set"),
        pytest.param({"type": "object", "x-kubernetes-map-type": "atomic"}, "atomic", True, id="a map may be one piece"),
        pytest.param({"type": "object", "properties": {"b": {}}}, "closed", True, id="a struct has its fields only"),
        pytest.param(
            {"type": "object", "properties": {"b": {}}, "x-kubernetes-preserve-unknown-fields": True},
            "closed",
            False,
            id="unless it keeps others",
        ),
        pytest.param({"type": "object", "additionalProperties": {"type": "string"}}, "closed", False, id="a map has any key"),
        pytest.param(
            {"type": "integer", "x-kubernetes-int-or-string": True}, "scalar", "", id="an integer or string may be either"
        ),
        pytest.param(
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["b", "a"],
                "items": {"type": "object", "properties": {"a": {"type": "string", "default": "z"}, "b": {"type": "string"}}},
            },
            "key_defaults",
            {"a": "z"},
            id="a key's default is in the schema",
        ),
    ],
)
def test_custom(schema: Json, attribute: str, value: Any) -> None:
    assert getattr(at(custom(a=schema), "spec.a"), attribute) == value


def test_metadata_of_custom_kinds_is_the_usual_one() -> None:
    assert at(custom(), "metadata.ownerReferences").map_keys == ("uid",)


def test_metadata_inside_an_embedded_object_is_the_usual_one() -> None:
    shape = custom(a={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True})
    assert at(shape, "spec.a.metadata.finalizers").list_type == "set"


def test_what_no_schema_tells_is_schemaless() -> None:
    assert at(custom(), "spec.no.such.[]") is ANY


def test_recursive_definitions_are_read_as_far_as_asked() -> None:
    schema = Shape.of({"$ref": f"{REF}io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"}, load())
    assert at(schema, "properties.a.properties.b.not.required").list_type == "atomic"
