"""OpenAPI documents, read as kubectl reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.standalone.apiserver.served_kinds import builtins, gadget, registry, widget
from ullage.standalone.apiserver.about.openapi import proto
from ullage.standalone.apiserver.about.openapi.documents import OpenApi
from ullage.standalone.apiserver.kinds.resources import Registry
from ullage.standalone.apiserver.request.document import Document
from ullage.standalone.apiserver.schema import definitions

Json = dict[str, Any]
SCHEMAS = "#/components/schemas/"
PROTO = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"  # as kubectl writes it


def served(*custom: Any) -> OpenApi:
    return OpenApi(registry(*custom), definitions.load())


def read(documents: OpenApi, path: str) -> Json:
    found = documents.answer(path)
    assert found is not None
    content: Json = json.loads(found.body)
    return content


@pytest.fixture(scope="module")
def with_widget() -> OpenApi:
    return served(widget())


@pytest.fixture(scope="module")
def widget_document(with_widget: OpenApi) -> Json:
    return read(with_widget, "/openapi/v3/apis/example.com/v1")


def test_the_index_names_a_document_for_every_version_that_is_served(with_widget: OpenApi) -> None:
    paths = read(with_widget, "/openapi/v3")["paths"]
    expected = {f"apis/{r.api_version}" if r.group else "api/v1" for r in builtins()}
    assert set(paths) == expected | {"apis/example.com/v1"}


def test_an_address_in_the_index_leads_to_a_document_that_never_changes(with_widget: OpenApi) -> None:
    address = read(with_widget, "/openapi/v3")["paths"]["apis/apps/v1"]["serverRelativeURL"]
    path, _, wanted = address.partition("?hash=")
    found = with_widget.answer(path, wanted=wanted)
    assert found is not None
    assert (found.status, found.cache_control, found.etag) == (200, "public, immutable", wanted)


def test_an_outdated_hash_is_sent_on_to_the_right_one(with_widget: OpenApi) -> None:
    found = with_widget.answer("/openapi/v3/apis/apps/v1", wanted="OLD")
    assert found is not None
    assert (found.status, found.body) == (301, b"")
    assert found.location == f"/openapi/v3/apis/apps/v1?hash={found.etag}"


@pytest.mark.parametrize(
    ("path", "accept", "status"),
    [
        pytest.param("/openapi/v3/apis/apps/v1", "application/json", 200, id="v3 as JSON"),
        pytest.param("/openapi/v3/apis/apps/v1", "application/json, */*", 200, id="v3 in a list of wishes"),
        pytest.param("/openapi/v3/apis/apps/v1", "text/html", 406, id="v3 as a page"),
        pytest.param("/openapi/v3/apis/apps/v1", PROTO, 406, id="v3 as protobuf, which we do not make"),
        pytest.param("/openapi/v2", PROTO, 200, id="v2 as protobuf"),
        pytest.param("/openapi/v2", "*/*", 200, id="v2 as anything"),
        pytest.param("/openapi/v2", "text/html", 406, id="v2 as a page"),
    ],
)
def test_media_types(with_widget: OpenApi, path: str, accept: str, status: int) -> None:
    found = with_widget.answer(path, accept=accept)
    assert found is not None
    assert found.status == status
    assert bool(found.body) == (status == 200)


@pytest.mark.parametrize("path", ["/openapi/v3/apis/nope/v1", "/openapi/v3/api/v2", "/openapi/v4"])
def test_nothing_is_there(with_widget: OpenApi, path: str) -> None:
    assert with_widget.answer(path) is None


@pytest.mark.parametrize("accept", [pytest.param(PROTO, id="protobuf"), pytest.param("application/json", id="JSON")])
def test_a_client_that_has_v2_gets_304(with_widget: OpenApi, accept: str) -> None:
    whole = with_widget.answer("/openapi/v2", accept=accept)
    assert whole is not None
    again = with_widget.answer("/openapi/v2", accept=accept, if_none_match=f'"{whole.etag}"')
    assert again == Document(b"", "", whole.etag, whole.cache_control, "Accept", 304)


def test_a_new_kind_changes_its_own_document_and_no_other() -> None:
    kinds = registry(widget())
    documents = OpenApi(kinds, definitions.load())
    before = read(documents, "/openapi/v3")["paths"]
    core = documents.answer("/openapi/v3/api/v1")
    kinds.add(gadget("v1", "example.com"))
    after = read(documents, "/openapi/v3")["paths"]
    assert {place for place in after if after[place] != before[place]} == {"apis/example.com/v1"}
    again = documents.answer("/openapi/v3/api/v1")
    assert core is not None
    assert again is not None
    assert core.body is again.body


@pytest.mark.parametrize("place", sorted({f"apis/{r.api_version}" if r.group else "api/v1" for r in builtins()}))
def test_every_reference_leads_somewhere(with_widget: OpenApi, place: str) -> None:
    document = read(with_widget, f"/openapi/v3/{place}")
    named = set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document)))
    assert {SCHEMAS + name for name in document["components"]["schemas"]} >= named
    assert not [ref for ref in named if not ref.startswith(SCHEMAS)]


@pytest.mark.parametrize("place", ["api/v1", "apis/apps/v1", "apis/example.com/v1"])
def test_what_is_empty_is_left_out(with_widget: OpenApi, place: str) -> None:
    """Go's types read an empty list and write none: a client that compares would see a difference."""
    document = read(with_widget, f"/openapi/v3/{place}")
    empty = re.findall(r'"(\w+)": (?:\[\]|\{\})', json.dumps(document["paths"]))
    assert set(empty) == set()


def test_a_reference_with_words_beside_it_keeps_them(with_widget: OpenApi) -> None:
    schemas = read(with_widget, "/openapi/v3/api/v1")["components"]["schemas"]
    spec = schemas["io.k8s.api.core.v1.Pod"]["properties"]["spec"]
    assert spec["allOf"] == [{"$ref": f"{SCHEMAS}io.k8s.api.core.v1.PodSpec"}]
    assert spec["description"].startswith("Specification of the desired behavior")


def test_marks_that_the_package_added_are_gone(with_widget: OpenApi) -> None:
    schemas = read(with_widget, "/openapi/v3/api/v1")["components"]["schemas"]
    pod = schemas["io.k8s.api.core.v1.Pod"]
    assert "enum" not in pod["properties"]["kind"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]
    assert schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["format"] == "int-or-string"
    assert schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"]["oneOf"] == [{"type": "string"}, {"type": "number"}]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert (containers["x-kubernetes-patch-merge-key"], containers["x-kubernetes-list-map-keys"]) == ("name", ["name"])


def test_a_custom_kind_is_published_with_what_every_object_has(widget_document: Json) -> None:
    schema = widget_document["components"]["schemas"]["com.example.v1.Widget"]
    assert schema["description"] == "A widget is a thing."
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Widget"}]
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    meta = schema["properties"]["metadata"]
    assert meta["allOf"] == [{"$ref": f"{SCHEMAS}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]
    items = widget_document["components"]["schemas"]["com.example.v1.WidgetList"]["properties"]["items"]
    assert items["items"] == {"$ref": f"{SCHEMAS}com.example.v1.Widget"}


def test_shorthands_of_a_custom_schema_are_written_out(widget_document: Json) -> None:
    fields = widget_document["components"]["schemas"]["com.example.v1.Widget"]["properties"]["spec"]["properties"]
    assert fields["port"] == {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert set(fields["pod"]["properties"]) == {"apiVersion", "kind", "metadata"}
    assert fields["pod"]["required"] == ["spec", "kind", "apiVersion"]
    assert fields["size"]["default"] == 3
    assert fields["$ref"] == {"type": "string"}


@pytest.mark.parametrize(
    ("path", "method", "action", "parameters"),
    [
        pytest.param("", "post", "post", {"dryRun", "fieldManager", "fieldValidation"}, id="create"),
        pytest.param("/{name}", "put", "put", {"dryRun", "fieldManager", "fieldValidation"}, id="update"),
        pytest.param("/{name}", "patch", "patch", {"dryRun", "fieldManager", "fieldValidation", "force"}, id="patch"),
        pytest.param("/{name}", "get", "get", set(), id="read"),
        pytest.param("", "get", "list", {"labelSelector", "limit", "watch"}, id="list"),
        pytest.param("", "delete", "deletecollection", {"labelSelector", "propagationPolicy"}, id="delete a collection"),
        pytest.param("/{name}/status", "patch", "patch", {"fieldValidation"}, id="patch the status"),
    ],
)
def test_an_operation_says_what_kubectl_looks_for(
    widget_document: Json, path: str, method: str, action: str, parameters: set[str]
) -> None:
    operation = widget_document["paths"][f"/apis/example.com/v1/namespaces/{{namespace}}/widgets{path}"][method]
    assert operation["x-kubernetes-action"] == action
    assert operation["x-kubernetes-group-version-kind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert parameters <= {parameter["name"] for parameter in operation.get("parameters", ())}


def test_only_built_in_kinds_take_strategic_merge_patches(with_widget: OpenApi, widget_document: Json) -> None:
    name = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"
    custom = widget_document["paths"][name]["patch"]["requestBody"]["content"]
    core = read(with_widget, "/openapi/v3/api/v1")["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]
    assert "application/strategic-merge-patch+json" not in custom
    assert "application/strategic-merge-patch+json" in core["patch"]["requestBody"]["content"]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        pytest.param("/api/v1/pods", {"get"}, id="all namespaces can only be listed"),
        pytest.param("/api/v1/namespaces/{namespace}/bindings", {"post"}, id="a binding can only be created"),
        pytest.param("/api/v1/namespaces", {"get", "post"}, id="namespaces are not deleted together"),
        pytest.param("/api/v1/namespaces/{name}/finalize", {"put"}, id="finalize"),
        pytest.param("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", {"post"}, id="a token"),
        pytest.param("/api/v1/namespaces/{namespace}/pods/{name}/log", {"get"}, id="a log"),
    ],
)
def test_methods_follow_the_verbs(with_widget: OpenApi, path: str, methods: set[str]) -> None:
    assert set(read(with_widget, "/openapi/v3/api/v1")["paths"][path]) == methods | {"parameters"}


@pytest.mark.parametrize("place", ["api/v1", "apis/apps/v1", "apis/example.com/v1"])
def test_no_two_operations_share_an_id(with_widget: OpenApi, place: str) -> None:
    paths = read(with_widget, f"/openapi/v3/{place}")["paths"]
    ids = [item[method]["operationId"] for item in paths.values() for method in item if method != "parameters"]
    assert len(ids) == len(set(ids))


def test_v2_says_less_where_it_lacks_the_words(with_widget: OpenApi) -> None:
    document = read(with_widget, "/openapi/v2")
    assert document["swagger"] == "2.0"
    found = document["definitions"]["com.example.v1.Widget"]["properties"]["spec"]["properties"]
    assert found["size"] == {"format": "int32", "minimum": 1, "description": "how big"}
    assert found["port"] == {"x-kubernetes-int-or-string": True}
    assert found["any"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert found["mode"] == {"type": "string", "enum": ["a", "b"]}
    assert found["tags"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"] == "string"


def test_v2_leaves_a_kind_open_that_takes_any_field() -> None:
    anything = widget(schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    found = read(served(anything), "/openapi/v2")["definitions"]["com.example.v1.Widget"]
    assert found == {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}],
    }


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: bytes for those with a length, numbers for the rest."""
    place = 0

    def number() -> int:
        nonlocal place
        found = shift = 0
        while True:
            byte = message[place]
            place, found, shift = place + 1, found | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return found

    while place < len(message):
        tag = number()
        if tag & 7 == 0:
            yield tag >> 3, number()
            continue
        length = number() if tag & 7 == 2 else 8
        yield tag >> 3, message[place : place + length]
        place += length


def named(message: bytes) -> dict[str, bytes]:
    """A repeated field of name and value."""
    pairs = (dict(fields(entry)) for _, entry in fields(message))
    return {pair[1].decode(): pair.get(2, b"") for pair in pairs}


def definitions_in(document: bytes) -> dict[str, bytes]:
    return {name: body for number, part in fields(document) if number == 9 for name, body in named(part).items()}


def binary(documents: OpenApi) -> bytes:
    found = documents.answer("/openapi/v2", accept=PROTO)
    assert found is not None
    assert found.content_type == proto.MEDIA_TYPE
    return found.body


def test_the_protobuf_form_has_the_definitions_of_the_json_form(with_widget: OpenApi) -> None:
    found = definitions_in(binary(with_widget))
    assert set(found) == set(read(with_widget, "/openapi/v2")["definitions"])


def test_a_schema_in_protobuf_has_the_numbers_that_kubectl_knows(with_widget: OpenApi) -> None:
    schema = dict(fields(definitions_in(binary(with_widget))["com.example.v1.Widget"]))
    assert schema[4] == b"A widget is a thing."
    assert dict(fields(schema[22]))[1] == b"object"
    extension = dict(fields(schema[31]))
    assert extension[1] == b"x-kubernetes-group-version-kind"
    assert json.loads(dict(fields(extension[2]))[2]) == [{"group": "example.com", "version": "v1", "kind": "Widget"}]
    spec = named(schema[25])["spec"]
    size = dict(fields(named(dict(fields(spec))[25])["size"]))
    assert (size[2], size[9]) == (b"int32", b"\x00\x00\x00\x00\x00\x00\xf0\x3f")
    assert dict(fields(spec))[19] == b"size"


def test_the_protobuf_form_follows_kinds_that_come_and_go() -> None:
    kinds = registry()
    documents = OpenApi(kinds, definitions.load())
    bare = binary(documents)
    kinds.add(widget())
    assert set(definitions_in(binary(documents))) - set(definitions_in(bare)) == {
        "com.example.v1.Widget",
        "com.example.v1.WidgetList",
    }
    kinds.remove("example.com", "widgets")
    assert binary(documents) == bare


def test_the_documents_of_an_empty_registry_are_empty() -> None:
    documents = OpenApi(Registry(), definitions.load())
    assert read(documents, "/openapi/v3") == {"paths": {}}
