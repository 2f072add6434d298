"""Input that no client should send. The server names the fault, stores nothing and serves the next request."""

# ruff: noqa: E501 - messages stand on one line, as they come over the wire

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

import pytest

from .api import Api
from .checks import check_answer
from .kinds import configmap
from .requests_table.case import APPLY, CONFIGMAPS, GAUGES, JSON_PATCH, MERGE_PATCH, STRATEGIC, TANKS, Case, fill

YAML = {"Content-Type": "application/yaml"}
TOO_LARGE = "Request entity too large: limit is 3145728"
BIG = b'{"metadata":{"name":"big"},"data":{"k":"' + b"x" * 3_200_000 + b'"}}'
NOT_JSON = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: …"
NOT_JSON_GAUGE = "the object provided is unrecognized (must be of type Gauge): couldn't get version/kind; json parse error: …"
NOT_YAML = "the object provided is unrecognized (must be of type ConfigMap): yaml: …"
BAD_PATCH = "the server rejected our request due to an error in our request"
MEDIA = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"
NOWHERE = "the server could not find the requested resource"
NEST = 100_000


def gauge_with(value: bytes) -> bytes:
    head = b'{"apiVersion":"e2e.example.com/v1","kind":"Gauge","metadata":{"name":"h"},"spec":{"capacity":'
    return head + value + b"}}"


def tank_with(value: bytes) -> bytes:
    return b'{"apiVersion":"e2e.example.com/v1","kind":"Tank","metadata":{"name":"deep-{ns}"},"x":' + value + b"}"


CASES = (
    Case("JSON that ends early", "POST", CONFIGMAPS, b'{"metadata":', expect=(400, "BadRequest"), message=NOT_JSON),
    Case("text that is no JSON", "POST", CONFIGMAPS, b"not json", expect=(400, "BadRequest"), message=NOT_JSON),
    Case(
        "more after the end", "POST", CONFIGMAPS, b'{"metadata":{"name":"t"}} x', expect=(400, "BadRequest"), message=NOT_JSON
    ),
    Case("two objects", "POST", CONFIGMAPS, b'{"metadata":{"name":"t"}}{}', expect=(400, "BadRequest"), message=NOT_JSON),
    Case("single quotes", "POST", CONFIGMAPS, b"{'metadata':{}}", expect=(400, "BadRequest"), message=NOT_JSON),
    Case(
        "YAML under the name of JSON",
        "POST",
        CONFIGMAPS,
        b"metadata:\n  name: q\n",
        expect=(400, "BadRequest"),
        message=NOT_JSON,
    ),
    Case(
        "a line break in a string",
        "POST",
        CONFIGMAPS,
        b'{"metadata":{"name":"c"},"data":{"k":"a\nb"}}',
        expect=(400, "BadRequest"),
        message=NOT_JSON,
    ),
    Case(
        "a byte-order mark",
        "POST",
        CONFIGMAPS,
        b'\xef\xbb\xbf{"metadata":{"name":"bom"}}',
        expect=(400, "BadRequest"),
        message=NOT_JSON,
    ),
    Case("NUL bytes alone", "POST", CONFIGMAPS, b"\x00" * 10, expect=(400, "BadRequest"), message=NOT_JSON),
    Case(
        "a NUL byte in a string",
        "POST",
        CONFIGMAPS,
        b'{"metadata":{"name":"n\x00ul"}}',
        expect=(400, "BadRequest"),
        message=NOT_JSON,
    ),
    Case(
        "a NUL character in a name",
        "POST",
        CONFIGMAPS,
        b'{"metadata":{"name":"n\\u0000ul"}}',
        expect=(422, "Invalid"),
        causes=(("metadata.name", "FieldValueInvalid"),),
    ),
    Case(
        "a name that is not UTF-8",
        "POST",
        CONFIGMAPS,
        b'{"metadata":{"name":"\xff\xfe"}}',
        expect=(422, "Invalid"),
        causes=(("metadata.name", "FieldValueInvalid"),),
    ),
    Case("a number as the body", "POST", CONFIGMAPS, b"5", expect=(400, "BadRequest"), message=NOT_JSON),
    Case(
        "null as the body",
        "POST",
        CONFIGMAPS,
        b"null",
        expect=(422, "Invalid"),
        message='ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
    ),
    Case(
        "null as the update",
        "PUT",
        f"{CONFIGMAPS}/a",
        b"null",
        expect=(400, "BadRequest"),
        message="the name of the object (a based on URL) was undeterminable: name must be provided",
    ),
    Case("custom text that is no JSON", "POST", GAUGES, b"not json", expect=(400, "BadRequest"), message=NOT_JSON_GAUGE),
    Case("custom JSON that ends early", "POST", GAUGES, b'{"metadata":', expect=(400, "BadRequest"), message=NOT_JSON_GAUGE),
    Case("a number that is none", "POST", GAUGES, gauge_with(b"NaN"), expect=(400, "BadRequest"), message=NOT_JSON_GAUGE),
    Case(
        "a number beyond all bounds",
        "POST",
        GAUGES,
        gauge_with(b"1e400"),
        expect=(400, "BadRequest"),
        message='Gauge in version "v1" cannot be handled as a Gauge: json: cannot unmarshal number 1e400 …',
    ),
    Case("an integer beyond 64 bits", "POST", GAUGES, gauge_with(b"99999999999999999999"), expect=(422, "Invalid")),
    Case(
        "YAML that ends early", "POST", CONFIGMAPS, b"metadata: [", headers=YAML, expect=(400, "BadRequest"), message=NOT_YAML
    ),
    Case(
        "YAML with a tab",
        "POST",
        CONFIGMAPS,
        b"metadata:\n\tname: a",
        headers=YAML,
        expect=(400, "BadRequest"),
        message=NOT_YAML,
    ),
    Case(
        "YAML that holds itself",
        "POST",
        CONFIGMAPS,
        b"metadata: &a\n  name: x\n  labels: *a\n",
        headers=YAML,
        expect=(400, "BadRequest"),
        message=NOT_YAML,
    ),
    Case("YAML that is a word", "POST", CONFIGMAPS, b"hello", headers=YAML, expect=(400, "BadRequest"), message=NOT_JSON),
    Case(
        "custom YAML that ends early",
        "POST",
        GAUGES,
        b"metadata: [",
        headers=YAML,
        expect=(400, "BadRequest"),
        message="the object provided is unrecognized (must be of type Gauge): yaml: …",
    ),
    Case(
        "a body of more than three megabytes", "POST", CONFIGMAPS, BIG, expect=(413, "RequestEntityTooLarge"), message=TOO_LARGE
    ),
    Case(
        "a custom body of more than three megabytes",
        "POST",
        GAUGES,
        BIG,
        expect=(413, "RequestEntityTooLarge"),
        message=TOO_LARGE,
    ),
    Case(
        "an update of more than three megabytes",
        "PUT",
        f"{CONFIGMAPS}/a",
        BIG,
        expect=(413, "RequestEntityTooLarge"),
        message=TOO_LARGE,
    ),
    Case(
        "a patch of more than three megabytes",
        "PATCH",
        f"{CONFIGMAPS}/a",
        BIG,
        headers=MERGE_PATCH,
        expect=(413, "RequestEntityTooLarge"),
        message=TOO_LARGE,
    ),
    Case(
        "delete options of more than three megabytes",
        "DELETE",
        f"{CONFIGMAPS}/a",
        BIG,
        expect=(413, "RequestEntityTooLarge"),
        message=TOO_LARGE,
    ),
    Case("a hundred thousand brackets", "POST", CONFIGMAPS, b"[" * NEST, expect=(400, "BadRequest"), message=NOT_JSON),
    Case(
        "a hundred thousand lists in a field",
        "POST",
        CONFIGMAPS,
        b'{"metadata":{"name":"deep"},"data":' + b"[" * NEST + b"]" * NEST + b"}",
        expect=(400, "BadRequest"),
        message=NOT_JSON,
    ),
    Case(
        "a hundred thousand objects in a free field",
        "POST",
        TANKS,
        tank_with(b'{"x":' * NEST + b"1" + b"}" * NEST),
        expect=(400, "BadRequest"),
        message="the object provided is unrecognized (must be of type Tank): couldn't get version/kind; json parse error: …",
    ),
    Case(
        "a patch of a hundred thousand objects",
        "PATCH",
        f"{CONFIGMAPS}/a",
        b'{"data":' + b'{"a":' * NEST + b"1" + b"}" * (NEST + 1),
        headers=MERGE_PATCH,
        expect=(400, "BadRequest"),
        message="error decoding patch: …",
    ),
    Case(
        "a JSON patch of a hundred thousand brackets",
        "PATCH",
        f"{CONFIGMAPS}/a",
        b"[" * NEST,
        headers=JSON_PATCH,
        expect=(400, "BadRequest"),
        message="error decoding patch: …",
    ),
    Case(
        "an apply of a hundred thousand brackets",
        "PATCH",
        f"{CONFIGMAPS}/a?fieldManager=m",
        b"[" * NEST,
        headers=APPLY,
        expect=(400, "BadRequest"),
        message="error decoding YAML: …",
    ),
    Case(
        "an unknown field under Strict",
        "POST",
        f"{CONFIGMAPS}?fieldValidation=Strict",
        b'{"metadata":{"name":"s"},"colour":1}',
        expect=(400, "BadRequest"),
        message='ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "colour"',
    ),
    Case(
        "YAML with a key twice under Strict",
        "POST",
        f"{CONFIGMAPS}?fieldValidation=Strict",
        b"metadata:\n  name: a\n  name: b\n",
        headers=YAML,
        expect=(400, "BadRequest"),
    ),
    Case(
        "protobuf that is none",
        "POST",
        CONFIGMAPS,
        b"garbage",
        headers={"Content-Type": "application/vnd.kubernetes.protobuf"},
        expect=(400, "BadRequest"),
        message="the object provided is unrecognized (must be of type ConfigMap): …",
    ),
    Case(
        "a content type that is none",
        "POST",
        CONFIGMAPS,
        b"{}",
        headers={"Content-Type": ";;;"},
        expect=(415, "UnsupportedMediaType"),
        message=MEDIA,
    ),
    Case(
        "a form",
        "POST",
        CONFIGMAPS,
        b"a=b",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        expect=(415, "UnsupportedMediaType"),
        message=MEDIA,
    ),
    Case(
        "a JSON patch that is a string",
        "PATCH",
        f"{CONFIGMAPS}/a",
        b'"x"',
        headers=JSON_PATCH,
        expect=(400, "BadRequest"),
        message="error decoding patch: …",
    ),
    Case(
        "a JSON patch without a path",
        "PATCH",
        f"{CONFIGMAPS}/a",
        b'[{"op":"add","value":1}]',
        headers=JSON_PATCH,
        expect=(422, "Invalid"),
        message=BAD_PATCH,
    ),
    Case(
        "a JSON patch with a path that is none",
        "PATCH",
        f"{CONFIGMAPS}/a",
        b'[{"op":"add","path":"plain","value":"1"}]',
        headers=JSON_PATCH,
        expect=(422, "Invalid"),
        message=BAD_PATCH,
    ),
    Case(
        "a JSON patch of too many steps",
        "PATCH",
        f"{CONFIGMAPS}/a",
        b"[" + b",".join([b'{"op":"test","path":"/data/k","value":"v"}'] * 10_001) + b"]",
        headers=JSON_PATCH,
        expect=(413, "RequestEntityTooLarge"),
        message="Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
    ),
    Case(
        "a merge patch that is null",
        "PATCH",
        f"{CONFIGMAPS}/a",
        b"null",
        headers=MERGE_PATCH,
        expect=(400, "BadRequest"),
        message="Invalid JSON Patch",
    ),
    Case(
        "a merge patch that is a number",
        "PATCH",
        f"{CONFIGMAPS}/a",
        b"5",
        headers=MERGE_PATCH,
        expect=(400, "BadRequest"),
        message="error decoding patch: …",
    ),
    Case(
        "a merge patch that is empty",
        "PATCH",
        f"{CONFIGMAPS}/a",
        b"",
        headers=MERGE_PATCH,
        expect=(400, "BadRequest"),
        message="error decoding patch: unexpected end of JSON input",
    ),
    Case(
        "a strategic directive that is a number",
        "PATCH",
        f"{CONFIGMAPS}/a",
        b'{"data":{"$patch":5}}',
        headers=STRATEGIC,
        expect=(500, ""),
        message="unknown patch type: …",
    ),
    Case(
        "an apply that is empty",
        "PATCH",
        f"{CONFIGMAPS}/a?fieldManager=m",
        b"",
        headers=APPLY,
        expect=(400, "BadRequest"),
        message="invalid object type: /, Kind=",
    ),
    Case(
        "an apply that is a list",
        "PATCH",
        f"{CONFIGMAPS}/a?fieldManager=m",
        b"[]",
        headers=APPLY,
        expect=(400, "BadRequest"),
        message="error decoding YAML: …",
    ),
    Case("a name that climbs", "GET", f"{CONFIGMAPS}/..%2F..%2Fsecrets", expect=(404, "NotFound"), message=NOWHERE),
    Case(
        "a name of two dots",
        "GET",
        f"{CONFIGMAPS}/%2e%2e",
        expect=(400, "BadRequest"),
        message="Name parameter invalid: \"..\": may not be '..'",
    ),
    Case("a name with a slash", "GET", f"{CONFIGMAPS}/a%2Fb", expect=(404, "NotFound"), message=NOWHERE),
    Case("a name with a NUL", "GET", f"{CONFIGMAPS}/a%00b", expect=(404, "NotFound"), message='configmaps "a\\x00b" not found'),
    Case(
        "a name with a percent sign",
        "GET",
        f"{CONFIGMAPS}/%25zz",
        expect=(400, "BadRequest"),
        message="Name parameter invalid: \"%zz\": may not contain '%'",
    ),
    Case("a name with an umlaut", "GET", f"{CONFIGMAPS}/%C3%BC", expect=(404, "NotFound"), message='configmaps "ü" not found'),
    Case(
        "an update of a name that climbs",
        "PUT",
        f"{CONFIGMAPS}/..%2Fx",
        b'{"metadata":{"name":"../x"}}',
        expect=(404, "NotFound"),
        message=NOWHERE,
    ),
    Case(
        "a new name of two dots",
        "POST",
        CONFIGMAPS,
        b'{"metadata":{"name":".."}}',
        expect=(422, "Invalid"),
        causes=(("metadata.name", "FieldValueInvalid"),),
    ),
    Case(
        "a new role of two dots",
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
        b'{"metadata":{"name":".."}}',
        expect=(422, "Invalid"),
        message='Role.rbac.authorization.k8s.io ".." is invalid: metadata.name: Invalid value: "..": may not be \'..\'',
    ),
    Case(
        "a namespace that climbs",
        "GET",
        "/api/v1/namespaces/..%2Fdefault/configmaps",
        expect=(404, "NotFound"),
        message=NOWHERE,
    ),
    Case("a doubled slash", "GET", "/api//v1/namespaces", expect=(404, "NotFound"), message=NOWHERE),
    Case(
        "a selector of a hundred thousand letters",
        "GET",
        f"{CONFIGMAPS}?labelSelector={'a' * 100_000}",
        expect=(400, "BadRequest"),
        message="unable to parse requirement: …",
    ),
    Case("a selector that is not closed", "GET", f"{CONFIGMAPS}?labelSelector=a+in+(b", expect=(400, "BadRequest")),
    Case(
        "a watch from a version that is no number",
        "GET",
        f"{CONFIGMAPS}?watch=1&resourceVersion=x",
        expect=(500, ""),
        message='resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax',
    ),
)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_bad_input_is_named_and_changes_nothing(case: Case, api: Api, namespace: str) -> None:
    saved = {"ns": namespace}
    api.create(fill(CONFIGMAPS, saved), configmap("a", {"k": "v"}))
    before = everything(api, namespace)
    body = case.body.replace(b"{ns}", namespace.encode()) if isinstance(case.body, bytes) else case.body
    answer = api.call(case.method, fill(case.path, saved), body, headers=case.headers)
    check_answer(case, answer, saved)
    assert everything(api, namespace) == before, "something was stored"


def everything(api: Api, namespace: str) -> list[object]:
    """All that a case could have written, versions included."""
    paths = (f"/api/v1/namespaces/{namespace}/configmaps", f"/apis/e2e.example.com/v1/namespaces/{namespace}/gauges")
    found: list[object] = [api.get(path).obj["items"] for path in paths]
    tanks = api.get("/apis/e2e.example.com/v1/tanks").obj["items"]
    return [*found, [tank for tank in tanks if tank["metadata"]["name"] == f"deep-{namespace}"]]


@pytest.mark.parametrize(
    ("body", "value"),
    [
        pytest.param(
            b'{"metadata":{"name":"u"},"data":{"k":"\xff"}}',
            "\ufffd",
            id="bytes that are no UTF-8 become replacement characters",
        ),
        pytest.param(b'{"metadata":{"name":"u"},"data":{"k":"a\\u0000b"}}', "a\x00b", id="a NUL character in data is data"),
        pytest.param(b'{"metadata":{"name":"u"},"data":{"k":"1","k":"2"}}', "2", id="of a key given twice the last counts"),
    ],
)
def test_odd_input_that_is_accepted(api: Api, namespace: str, body: bytes, value: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert api.call("POST", path, body).code == 201
    assert api.get(f"{path}/u").obj["data"]["k"] == value


def test_a_header_of_twenty_kilobytes_is_read(api: Api) -> None:
    assert api.call("GET", "/version", headers={"X-Large": "x" * 20_000}).code == 200


def test_a_header_of_two_megabytes_is_refused(api: Api) -> None:
    code, _ = raw_request(api, b"GET /version HTTP/1.1\r\nHost: x\r\nX-Huge: " + b"x" * 2_000_000 + b"\r\n\r\n")
    assert code in {431, 400, None}, "refused or hung up on"
    assert api.get("/version").code == 200


@pytest.mark.parametrize(
    ("request_bytes", "codes"),
    [
        pytest.param(b"\x00\x01\x02\x03\r\n\r\n", {400, None}, id="bytes that are no HTTP"),
        pytest.param(b"GET\r\n\r\n", {400, None}, id="a method alone"),
        pytest.param(b"GET /version HTTP/9.9\r\nHost: x\r\n\r\n", {400, 505, 200, None}, id="an unknown protocol version"),
        pytest.param(
            b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Length: nine\r\n\r\n",
            {400, None},
            id="a length that is no number",
        ),
    ],
)
def test_what_is_no_http_is_refused(api: Api, request_bytes: bytes, codes: set[int | None]) -> None:
    code, _ = raw_request(api, request_bytes)
    assert code in codes
    assert api.get("/version").code == 200


def test_a_client_that_hangs_up_in_the_middle_stores_nothing(api: Api, namespace: str) -> None:
    body = b'{"metadata":{"name":"half"},"data":{"k":"v"}}'
    head = (
        f"POST /api/v1/namespaces/{namespace}/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.plane.admin_token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with connect(api) as connection:
        connection.sendall(head.encode() + body[:20])
    assert api.get(f"/api/v1/namespaces/{namespace}/configmaps/half").code == 404


def connect(api: Api) -> ssl.SSLSocket:
    target = urlsplit(api.plane.url)
    context = ssl.create_default_context(cafile=api.plane.ca_file)
    if api.plane.ca_file is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    plain = socket.create_connection((target.hostname or "", target.port or 443), timeout=10)
    return context.wrap_socket(plain, server_hostname=target.hostname)


def raw_request(api: Api, data: bytes) -> tuple[int | None, bytes]:
    """The status code and the start of the answer; None where the server hangs up without one."""
    with connect(api) as connection:
        try:
            connection.sendall(data)
            answer = connection.recv(4096)
        except OSError:
            return None, b""
    parts = answer.split(b" ", 2)
    return (int(parts[1]), answer) if answer.startswith(b"HTTP/") and len(parts) > 1 else (None, answer)
