"""Protobuf bodies: what real clients sent, what no client would send, and the table against the published definitions."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.standalone.apiserver.codec.json import BodyTooLarge
from ullage.standalone.apiserver.codec.protobuf import MEDIA_TYPE, Expected, decode
from ullage.standalone.apiserver.codec.protobuf.fields import blocks
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.decoding import accept_body
from ullage.standalone.apiserver.request.request import Request, Target, decode_body
from ullage.standalone.apiserver.schema.definitions import load
from ullage.standalone.apiserver.status import ApiError

# Bodies as kubectl 1.36 and a Go client encoded them, each with the JSON that kubectl's `--dry-run=client -o json` or Go's
# encoder has for the same object. Only the null that Go shows for an empty list is left out.
SENT: list[Json] = [
    msgspec.json.decode(line) for line in (Path(__file__).with_name("data") / "protobuf_bodies.jsonl").read_bytes().splitlines()
]
CONFIG_MAP = Expected("v1", "ConfigMap")


@pytest.mark.parametrize("sent", [pytest.param(sent, id=sent["id"]) for sent in SENT])
def test_what_clients_send_is_the_object_that_they_show_as_json(sent: Json) -> None:
    assert decode(base64.b64decode(sent["body"])) == sent["object"]


# --- a small encoder: just enough to say what clients do not say ---


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def num(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number)


def sub(field: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def envelope(api_version: str, kind: str, *parts: bytes) -> bytes:
    return b"k8s\0" + sub(1, sub(1, api_version.encode()), sub(2, kind.encode())) + sub(2, *parts)


def config_map(*parts: bytes) -> bytes:
    return envelope("v1", "ConfigMap", *parts)


def pod_spec(*parts: bytes) -> bytes:
    return envelope("v1", "Pod", sub(2, *parts))


def content(body: bytes) -> Json:
    return {key: value for key, value in decode(body).items() if key not in ("apiVersion", "kind")}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pod_spec(b"\x12\x00" * 200_000), id="empty containers of two bytes each"),
        pytest.param(pod_spec(sub(14, sub(4, b"\x01" * 200_000))), id="packed numbers of one byte each"),
        pytest.param(config_map(sub(2, b"") * 200_000), id="entries of a map over and over"),
        pytest.param(config_map(num(99, 1) * 200_000), id="fields that nobody knows"),
        pytest.param(
            envelope("apps/v1", "ControllerRevision", sub(2, sub(1, b"[" + b"1," * 200_000 + b"1]"))), id="JSON inside"
        ),
    ],
)
def test_a_body_of_too_many_values(body: bytes) -> None:
    with pytest.raises(BodyTooLarge):
        decode(body)


SECURITY_CONTEXT = 14  # of a pod's spec; its supplementalGroups are 4
MINIMUM, NOT = 11, 28  # of a schema


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        pytest.param(config_map(), {}, id="a body without fields is an object without fields"),
        pytest.param(
            config_map(sub(1, sub(1, b"a")), sub(1, sub(3, b"b"))),
            {"metadata": {"name": "a", "namespace": "b"}},
            id="a message in two parts is merged",
        ),
        pytest.param(
            config_map(sub(1, sub(1, b"a"), sub(1, b"b"))), {"metadata": {"name": "b"}}, id="of two values the last counts"
        ),
        pytest.param(
            config_map(sub(1, sub(1, b"a"), sub(1, b""))), {"metadata": {}}, id="an empty last value takes the first away"
        ),
        pytest.param(config_map(sub(2, sub(1, b"k"))), {"data": {"k": ""}}, id="an entry without a value has the empty one"),
        pytest.param(config_map(sub(2, sub(2, b"v"))), {"data": {"": "v"}}, id="an entry without a key has the empty one"),
        pytest.param(config_map(num(4, 0)), {"immutable": False}, id="false behind a pointer is not left out"),
        pytest.param(config_map(num(4, 7)), {"immutable": True}, id="any other number is true"),
        pytest.param(config_map(sub(1, num(7, 0))), {"metadata": {}}, id="a zero that Go would not show is left out"),
        pytest.param(
            config_map(num(99, 1), sub(98, b"x"), varint(97 << 3 | 1), bytes(8), varint(96 << 3 | 5), bytes(4)),
            {},
            id="fields of a later version are skipped",
        ),
        pytest.param(
            config_map(varint(99 << 3 | 3), num(1, 1), varint(98 << 3 | 3), varint(98 << 3 | 4), varint(99 << 3 | 4)),
            {},
            id="groups of a later version are skipped with all that they hold",
        ),
        pytest.param(
            config_map((varint(99 << 3 | 3) * 5000) + (varint(99 << 3 | 4) * 5000)),
            {},
            id="groups in groups without end cost no stack",
        ),
        pytest.param(
            pod_spec(sub(SECURITY_CONTEXT, num(4, 1), num(4, -1))),
            {"spec": {"securityContext": {"supplementalGroups": [1, -1]}}},
            id="numbers one by one, the negative in ten bytes",
        ),
        pytest.param(
            pod_spec(sub(SECURITY_CONTEXT, sub(4, varint(1), varint(300)))),
            {"spec": {"securityContext": {"supplementalGroups": [1, 300]}}},
            id="numbers in a pack",
        ),
        pytest.param(
            pod_spec(num(4, 1 << 63)), {"spec": {"terminationGracePeriodSeconds": -(1 << 63)}}, id="64 bits hold a sign"
        ),
        pytest.param(
            envelope("apps/v1", "Deployment", sub(2, num(1, 1 << 31))),
            {"spec": {"replicas": -(1 << 31)}},
            id="32 bits hold a sign",
        ),
        pytest.param(
            config_map(sub(2, sub(1, b"k"), sub(2, b"\xff"))), {"data": {"k": "�"}}, id="bytes that are no text are replaced"
        ),
        pytest.param(
            envelope("v1", "ResourceQuota", sub(2, sub(1, sub(1, b"pods")))),
            {"spec": {"hard": {"pods": "0"}}},
            id="no quantity is zero",
        ),
        pytest.param(
            config_map(sub(1, sub(9, num(1, 0), num(2, 0)))),
            {"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}},
            id="the first second of all is a time",
        ),
        pytest.param(
            config_map(sub(1, sub(9, num(1, -62135596800)))),
            {"metadata": {"deletionTimestamp": None}},
            id="the first second of year one is no time",
        ),
        pytest.param(config_map(sub(1, sub(8))), {"metadata": {}}, id="an empty creation time is left out"),
    ],
)
def test_every_way_to_write_a_field_is_read(body: bytes, wanted: Json) -> None:
    assert content(body) == wanted


NO_PROTOBUF = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
NO_SUCH_KIND = 'no kind "{}" is registered for version "{}" in scheme "pkg/runtime/scheme.go:111"'
UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
NOT_HANDLED = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: '


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", UNRECOGNIZED + "empty data (<empty>)", id="no body"),
        pytest.param(b"{}", UNRECOGNIZED + NO_PROTOBUF + " ({})", id="JSON"),
        pytest.param(b"k8s\0", UNRECOGNIZED + "empty body (6b387300)", id="an empty envelope"),
        pytest.param(
            b"k8s\0\xff\xff\xff", UNRECOGNIZED + "unexpected EOF (6b387300ffffff)", id="an envelope that ends within a number"
        ),
        pytest.param(
            config_map()[:12],
            UNRECOGNIZED + "unexpected EOF (6b3873000a0f0a0276311209)",
            id="an envelope that ends within its type",
        ),
        pytest.param(
            b"k8s\0" + b"\xff" * 40,
            UNRECOGNIZED + f"proto: integer overflow (6b387300{'ff' * 26} ...)",
            id="a number without end",
        ),
        pytest.param(config_map(b"\x0a\x7f"), NOT_HANDLED + "unexpected EOF", id="an object that ends within a field"),
        pytest.param(
            config_map(b"\x0a" + varint(-1)),
            NOT_HANDLED + "proto: negative length found during unmarshaling",
            id="a length below zero",
        ),
        pytest.param(
            config_map(sub(1, num(1, 1))),
            NOT_HANDLED + "proto: wrong wireType = 0 for field Name",
            id="a number where a text belongs",
        ),
        pytest.param(
            config_map(b"\x0c"),
            NOT_HANDLED + "proto: ConfigMap: wiretype end group for non-group",
            id="the end of a group that never began",
        ),
        pytest.param(
            config_map(b"\x02\x00"), NOT_HANDLED + "proto: ConfigMap: illegal tag 0 (wire type 2)", id="field number zero"
        ),
        pytest.param(
            config_map(varint(99 << 3 | 6)), NOT_HANDLED + "proto: illegal wireType 6", id="a wire type that does not exist"
        ),
        pytest.param(config_map(varint(99 << 3 | 3)), NOT_HANDLED + "unexpected EOF", id="a group without end"),
        pytest.param(config_map(varint(99 << 3 | 1)), NOT_HANDLED + "unexpected EOF", id="eight bytes that are not there"),
        pytest.param(
            envelope("v1", "Secret"),
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
            id="another kind",
        ),
        pytest.param(
            envelope("v9", "ConfigMap"),
            'ConfigMap in version "v9" cannot be handled as a ConfigMap: ' + NO_SUCH_KIND.format("ConfigMap", "v9"),
            id="a version that nobody knows",
        ),
        pytest.param(
            envelope("v1", "PodSpec"),
            'PodSpec in version "v1" cannot be handled as a ConfigMap: ' + NO_SUCH_KIND.format("PodSpec", "v1"),
            id="a message that is no kind",
        ),
        pytest.param(
            config_map(sub(1, sub(9, num(1, 1 << 62)))),
            NOT_HANDLED + "Time.MarshalJSON: year outside of range [0,9999]",
            id="a time after all calendars",
        ),
        pytest.param(
            config_map(sub(1, sub(17, sub(7, sub(1, b"{"))))),
            NOT_HANDLED + "json parse error: unexpected end of JSON input",
            id="JSON within that is none",
        ),
    ],
)
def test_a_bad_body_is_told_as_kube_apiserver_tells_it(body: bytes, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode(body, CONFIG_MAP)
    assert (caught.value.code, caught.value.reason, caught.value.message) == (400, "BadRequest", message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"xx", NO_PROTOBUF, id="no protobuf"),
        pytest.param(b"k8s\0", "empty body", id="an empty envelope"),
        pytest.param(envelope("v1", "DeleteOptions", b"\x12\x7f"), "unexpected EOF", id="options that end within a field"),
        pytest.param(envelope("v1", "Nope"), NO_SUCH_KIND.format("Nope", "v1"), id="a kind that nobody knows"),
    ],
)
def test_a_bad_body_of_options_is_told_without_naming_a_kind(body: bytes, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode(body)
    assert (caught.value.code, caught.value.message) == (400, message)


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(b"", id="neither version nor kind"),
        pytest.param(sub(1, sub(1, b"v1")), id="no kind"),
        pytest.param(sub(1, sub(2, b"ConfigMap")), id="no version"),
    ],
)
def test_a_body_that_does_not_say_what_it_is_is_what_the_url_says(named: bytes) -> None:
    body = b"k8s\0" + named + sub(2, num(4, 1))
    assert decode(body, CONFIG_MAP) == {"apiVersion": "v1", "kind": "ConfigMap", "immutable": True}


def definition_with(schema: bytes) -> bytes:
    return envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", sub(2, sub(7, sub(4, sub(1, schema)))))


def nested_schema(levels: int) -> bytes:
    schema = b""
    for _ in range(levels):
        schema = sub(NOT, schema)
    return definition_with(schema)


def test_a_deep_schema_is_read() -> None:
    found = decode(nested_schema(20))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for _ in range(20):
        found = found["not"]
    assert found == {}


def test_a_schema_of_very_many_levels_is_refused() -> None:
    with pytest.raises(ApiError, match="exceeded max depth"):
        decode(nested_schema(5_000))


@pytest.mark.parametrize("number", [pytest.param(float("nan"), id="no number"), pytest.param(float("inf"), id="infinity")])
def test_numbers_that_json_does_not_have_are_refused(number: float) -> None:
    with pytest.raises(ApiError, match="unsupported value"):
        decode(definition_with(varint(MINIMUM << 3 | 1) + struct.pack("<d", number)))


KINDS = sorted(full for full, block in blocks().items() if block.startswith("kind "))


@given(full=st.sampled_from(KINDS), raw=st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(full: str, raw: bytes) -> None:
    api_version, _, kind = full.rpartition(".")
    _survive(envelope(api_version, kind, raw))
    _survive(b"k8s\0" + raw)


@given(st.data())
def test_no_damage_to_a_real_body_does_more_than_be_refused(data: st.DataObject) -> None:
    body = bytearray(base64.b64decode(data.draw(st.sampled_from(SENT))["body"]))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(4, len(body) - 1))] = data.draw(st.integers(0, 255))
    _survive(bytes(body[: data.draw(st.integers(4, len(body)))]))


def _survive(body: bytes) -> None:
    code = 200
    try:
        msgspec.json.encode(decode(body))
    except ApiError as error:
        code = error.code
    assert code in (200, 400)


# --- the table ---

_PREFIXES = {
    "v1": "io.k8s.api.core.v1",
    "meta.k8s.io/v1": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "apiextensions.k8s.io/v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "apiregistration.k8s.io/v1": "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
}
_TYPES = {"string": "string", "bytes": "string", "int32": "integer", "int64": "integer", "bool": "boolean", "double": "number"}
_REFERENCES = {"time": "Time", "microTime": "MicroTime", "quantity": "Quantity", "intOrString": "IntOrString"}
_UNPUBLISHED = {f"meta.k8s.io/v1.{kind}" for kind in ("CreateOptions", "PatchOptions", "UpdateOptions")}  # only in queries


def definition(full: str) -> Json:
    api_version, _, name = full.rpartition(".")
    group, _, version = api_version.partition("/")
    package = group.split(".")[0]
    return load().raw[f"{_PREFIXES.get(api_version, f'io.k8s.api.{package}.{version}')}.{name}"]


def table_fields(full: str) -> Iterator[tuple[str, str]]:
    """JSON name and type of a message's fields, those of inlined messages among them."""
    for line in blocks()[full].splitlines()[1:]:
        word = line.split(" ", 1)[1]
        if word.startswith("^"):
            yield from table_fields(f"{full.rpartition('.')[0]}.{word[1:]}" if "." not in word else word[1:])
        else:
            name, type_ = word.split(" ")
            yield name, type_.removeprefix("?")


@pytest.mark.parametrize("full", sorted(set(blocks()) - _UNPUBLISHED))
def test_a_message_has_the_fields_of_its_published_definition(full: str) -> None:
    try:
        published = definition(full).get("properties", {})
    except KeyError:
        # Only a message that is always inlined has no definition of its own.
        assert any(f" ^{full.rpartition('.')[2]}" in block for block in blocks().values())
        return
    found = dict(table_fields(full))
    assert set(found) == set(published) - {"apiVersion", "kind"} | (set(found) & {"apiVersion", "kind"})
    for name, word in found.items():
        assert _fits(word, published[name]), f"{name}: {word} is not {published[name]}"


def _fits(word: str, schema: Json) -> bool:
    reference = schema.get("$ref", "").rpartition(".")[2]
    if word.startswith(("[]", "()")):
        return schema.get("type") == "array" and _fits(word[2:], schema["items"])
    if word.startswith("{}"):
        return schema.get("type") == "object" and _fits(word[2:], schema["additionalProperties"])
    if word in _TYPES:
        return bool(schema.get("type") == _TYPES[word])
    if word in _REFERENCES:
        return bool(reference == _REFERENCES[word])
    if word == "json" or word.startswith("schemaOr"):
        return True
    return bool(reference == word.rpartition(".")[2])


# --- the way into the server ---


def request(body: bytes, media: str = MEDIA_TYPE) -> Request:
    return Request("POST", "/", {}, {"content-type": media}, [], body, Target(), "create")


def test_the_content_type_decides_and_its_parameters_do_not() -> None:
    found = decode_body(request(config_map(), f"{MEDIA_TYPE}; charset=utf-8"), CONFIG_MAP)
    assert found == {"apiVersion": "v1", "kind": "ConfigMap"}


def test_other_types_are_refused_with_the_list_of_those_that_are_not() -> None:
    with pytest.raises(ApiError) as caught:
        decode_body(request(b"", "application/cbor"))
    accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    assert caught.value.code == 415
    assert caught.value.message.endswith(f"accepted media types include: {accepted}")


def test_custom_kinds_have_no_protobuf() -> None:
    tank = Resource("example.com", "v1", "tanks", "tank", "Tank", namespaced=True, custom={"group": "example.com"})
    with pytest.raises(ApiError) as caught:
        accept_body(request(envelope("example.com/v1", "Tank")), tank, Registry())
    assert (caught.value.code, caught.value.reason) == (415, "UnsupportedMediaType")
