"""Admission webhooks over real HTTPS on loopback.

Texts and codes are those that kube-apiserver 1.36 gave for the same answers.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvicorn

from ullage import pki
from ullage.standalone.apiserver.admission.plugins import admit
from ullage.standalone.apiserver.admission.webhooks.dispatch import Attributes, Webhooks, warning_headers
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.kinds.resources import Registry, Resource, Subresource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError

Reply = tuple[int, dict[str, str], bytes]
Behaviour = Callable[[Json], Any]

CONFIG_MAPS = Resource("", "v1", "configmaps", "configmap", "ConfigMap", namespaced=True, storage="configmaps")
NAMESPACES = Resource("", "v1", "namespaces", "namespace", "Namespace", namespaced=False, storage="namespaces")
NODES = Resource("", "v1", "nodes", "node", "Node", namespaced=False, storage="nodes")
SCALE = Subresource("scale", "Scale", ("get", "patch"), group="autoscaling", version="v1")
STATUS = Subresource("status", "Deployment", ("get", "patch"))
DEPLOYMENTS = Resource(
    "apps", "v1", "deployments", "deployment", "Deployment", namespaced=True, storage="deployments.apps",
    subresources={"scale": SCALE, "status": STATUS},
)  # fmt: skip
HOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "validatingwebhookconfiguration",
    "ValidatingWebhookConfiguration", namespaced=False, storage="hooks",
)  # fmt: skip
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim", namespaced=True)
OLD_WIDGETS = Resource("example.com", "v1beta1", "widgets", "widget", "Widget", namespaced=True, storage="widgets.example.com")
WIDGETS = Resource("example.com", "v1", "widgets", "widget", "Widget", namespaced=True, storage="widgets.example.com")
NAMESPACE: Json = {"metadata": {"name": "team", "labels": {"kubernetes.io/metadata.name": "team", "env": "prod"}}}


@dataclass
class Server:
    """A webhook that behaves as the test tells it to, by path, and remembers what it was asked."""

    port: int
    bundle: str
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    seen: list[tuple[str, Json]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.port}/{path}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        review, path = msgspec.json.decode(body) if body else {}, scope["path"].strip("/")
        self.seen.append((path, review))
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        self.headers.append(headers | {"x-test-peer": str(scope["client"])})
        reply = self.behaviours[path](review)
        code, sent, data = reply if isinstance(reply, tuple) else (200, {}, reply)
        if asyncio.iscoroutine(data):
            data = await data
        data = data if isinstance(data, bytes) else msgspec.json.encode(data)
        raw = [(key.encode(), value.encode()) for key, value in sent.items()] + [(b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": raw})
        await send({"type": "http.response.body", "body": data})


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("pki")
    now, day = datetime.now(UTC), timedelta(days=1)
    authority = pki.make_ca("webhooks", now=now, lifetime=day)
    pair = pki.issue_serving(authority, ["127.0.0.1", "hook.team.svc"], now=now, lifetime=day)
    (folder / "cert.pem").write_bytes(pair.certificate)
    (folder / "key.pem").write_bytes(pair.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener.getsockname()[1], base64.b64encode(authority.certificate).decode())
        config = uvicorn.Config(
            server, log_level="critical", lifespan="off", timeout_graceful_shutdown=1,
            ssl_certfile=str(folder / "cert.pem"), ssl_keyfile=str(folder / "key.pem"),
        )  # fmt: skip
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 20
        while not running.started and time.monotonic() < deadline:
            time.sleep(0.01)
        yield server
        running.should_exit = True
        thread.join(10)


@pytest.fixture
def server(shared_server: Server) -> Server:
    shared_server.behaviours.clear()
    shared_server.seen.clear()
    shared_server.headers.clear()
    return shared_server


@dataclass
class World:
    """Webhooks with configurations that a test writes down."""

    server: Server
    mutating: list[Json] = field(default_factory=list)
    validating: list[Json] = field(default_factory=list)
    services: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    registry: Registry = field(
        default_factory=lambda: Registry([CONFIG_MAPS, NAMESPACES, NODES, DEPLOYMENTS, HOOKS, OLD_WIDGETS, WIDGETS])
    )

    def __post_init__(self) -> None:
        namespaces = {"team": NAMESPACE}
        self.webhooks = Webhooks(
            lambda: (self.mutating, self.validating),
            namespaces.get,
            self.registry,
            resolve_service=lambda namespace, name, _port: self.services.get((namespace, name)),
        )

    def hook(self, name: str, behaviour: Behaviour | None = None, **more: Any) -> Json:
        if behaviour is not None:
            self.server.behaviours[name] = behaviour
        return {
            "name": f"{name}.example.com",
            "clientConfig": {"url": self.server.url(name), "caBundle": self.server.bundle},
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 5,
            **more,
        }

    def mutate_with(self, *hooks: Json, name: str = "m") -> None:
        self.mutating = [*self.mutating, {"metadata": {"name": name}, "webhooks": list(hooks)}]

    def validate_with(self, *hooks: Json, name: str = "v") -> None:
        self.validating = [*self.validating, {"metadata": {"name": name}, "webhooks": list(hooks)}]

    def asked(self) -> list[str]:
        return [path for path, _ in self.server.seen]


@pytest.fixture
async def world(server: Server) -> AsyncIterator[World]:
    found = World(server)
    yield found
    await found.webhooks.close()


def attributes(**more: Any) -> Attributes:
    given: Json = {
        "operation": "CREATE",
        "resource": CONFIG_MAPS,
        "subresource": "",
        "namespace": "team",
        "name": "a",
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "team"}, "data": {"x": "y"}},
        "old": None,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        "user": User("jane", "u1", ("devs",), {"scope": ("a",)}),
        "dry_run": False,
        **more,
    }
    return Attributes(**given)


def answer(review: Json, **response: Any) -> Json:
    body = {"uid": review["request"]["uid"], "allowed": True, **response}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": body}


def allow(review: Json) -> Json:
    return answer(review)


def deny(**status: Any) -> Behaviour:
    return lambda review: answer(review, allowed=False, **({"status": status} if status else {}))


def patch(*ops: Json, **more: Any) -> Behaviour:
    text = base64.b64encode(msgspec.json.encode(list(ops))).decode()
    return lambda review: answer(review, patch=text, patchType="JSONPatch", **more)


def add(path: str, value: Any) -> Json:
    return {"op": "add", "path": path, "value": value}


async def test_a_webhook_is_told_everything(world: World) -> None:
    world.validate_with(world.hook("v", allow))
    old = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    options = {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}
    attrs = attributes(
        operation="UPDATE", resource=DEPLOYMENTS, subresource="scale", name="d",
        object={"kind": "Scale"}, old=old, options=options, dry_run=True,
    )  # fmt: skip
    assert await world.webhooks.validate(attrs) == []
    [(_, review)] = world.server.seen
    request = review["request"]
    assert len(request.pop("uid")) == 36
    place = {"group": "apps", "version": "v1", "resource": "deployments"}
    kind = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert review == {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "kind": kind,
            "resource": place,
            "subResource": "scale",
            "requestKind": kind,
            "requestResource": place,
            "requestSubResource": "scale",
            "name": "d",
            "namespace": "team",
            "operation": "UPDATE",
            "dryRun": True,
            "options": options,
            "userInfo": {"username": "jane", "uid": "u1", "groups": ["devs"], "extra": {"scope": ["a"]}},
            "object": {"kind": "Scale"},
            "oldObject": old,
        },
    }
    assert world.server.headers[0]["user-agent"] == "kube-apiserver-admission"


@pytest.mark.parametrize(
    ("status", "code", "reason", "message", "details"),
    [
        pytest.param({}, 400, "", " without explanation", None, id="no status"),
        pytest.param({"message": "no"}, 400, "", ": no", None, id="a message"),
        pytest.param({"reason": "Because"}, 400, "Because", ": Because", None, id="a reason stands in for the message"),
        pytest.param({"message": "no", "code": 200}, 400, "", ": no", None, id="a code that says success is not believed"),
        pytest.param({"message": "no", "code": 403, "reason": "Forbidden"}, 403, "Forbidden", ": no", None, id="a code"),
        pytest.param(
            {"message": "later", "code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 7}},
            *(429, "TooManyRequests", ": later", {"retryAfterSeconds": 7}),
            id="details are carried over",
        ),
    ],
)
async def test_a_refusal(world: World, status: Json, code: int, reason: str, message: str, details: Json | None) -> None:
    for phase, configure in (("validate", world.validate_with), ("mutate", world.mutate_with)):
        configure(world.hook("h", deny(**status)))
        with pytest.raises(ApiError) as raised:
            await getattr(world.webhooks, phase)(attributes())
        error = raised.value
        assert (error.code, error.reason, error.details) == (code, reason, details)
        assert error.message == f'admission webhook "h.example.com" denied the request{message}'
        assert dict(error.headers) == ({"retry-after": "7"} if details else {})


def raw(**body: Any) -> Behaviour:
    return lambda _review: body


def typed(**kind: str) -> Behaviour:
    return lambda review: {"response": answer(review)["response"], **kind}


INVALID = "received invalid webhook response: "
CALL = "failed to call webhook: "
UNDECODABLE = "received undecodable patch in webhook response: "
STRUCT = r'Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
EXPECTED = f"{INVALID}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got "
V1: Json = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        pytest.param(raw(**V1), f"{INVALID}webhook response was absent", id="no response"),
        pytest.param(raw(), f"{INVALID}webhook response was absent", id="an empty object"),
        pytest.param(typed(), f"{EXPECTED}/, Kind=", id="no type"),
        pytest.param(typed(apiVersion="admission.k8s.io/v1"), f"{EXPECTED}admission.k8s.io/v1, Kind=", id="no kind"),
        pytest.param(
            typed(apiVersion="admission.k8s.io/v1", kind="Foo"),
            f'{CALL}no kind "Foo" is registered for version "admission.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"',
            id="another kind",
        ),
        pytest.param(
            typed(apiVersion="admission.k8s.io/v1beta1", kind="AdmissionReview"),
            f"{CALL}converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
            id="the version before",
        ),
        pytest.param(
            lambda _r: b"hello",
            f"{CALL}couldn't get version/kind; json parse error: json: cannot unmarshal string into {STRUCT}",
            id="no JSON",
        ),
        pytest.param(
            lambda _r: b"[]",
            f"{CALL}couldn't get version/kind; json parse error: json: cannot unmarshal array into {STRUCT}",
            id="a list",
        ),
        pytest.param(
            lambda review: answer(review, allowed="yes"),
            f"{CALL}json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
            id="allowed is no boolean",
        ),
        pytest.param(
            lambda _r: b"",
            f"{CALL}0-length response with status code: 200 and content type: application/json",
            id="an empty body",
        ),
        pytest.param(patch(), f"{INVALID}validating webhook may not return response.patch", id="a patch"),
        pytest.param(
            lambda review: answer(review, patchType="JSONPatch"),
            f"{INVALID}validating webhook may not return response.patchType",
            id="a patch type",
        ),
        pytest.param(
            lambda review: answer(review, patch="***"),
            f"{CALL}illegal base64 data at input byte 0",
            id="a patch that is no base64",
        ),
        pytest.param(
            lambda _r: (500, {}, b"boom"),
            f'{CALL}an error on the server ("boom") has prevented the request from succeeding',
            id="500 with a text",
        ),
        pytest.param(
            lambda _r: (500, {}, b'{"kind":"Status","message":"my words"}'), f"{CALL}my words", id="500 with a Status"
        ),
        pytest.param(
            lambda _r: (503, {}, b""), f"{CALL}the server is currently unable to handle the request", id="503"
        ),
        pytest.param(
            lambda _r: (404, {}, b"x"), f"{CALL}the server could not find the requested resource", id="404"
        ),
        pytest.param(lambda _r: (403, {}, b"nope"), f"{CALL}nope", id="403 speaks for itself"),
        pytest.param(
            lambda _r: (418, {}, b"tea"),
            f"{CALL}the server responded with the status code 418 but did not return more information",
            id="418",
        ),
    ],
)  # fmt: skip
async def test_a_failed_call(world: World, behaviour: Behaviour, text: str) -> None:
    world.validate_with(world.hook("h", behaviour))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.validate(attributes())
    message = f'failed calling webhook "h.example.com": {text}'
    assert (raised.value.code, raised.value.reason) == (500, "InternalError")
    assert raised.value.message == f"Internal error occurred: {message}"
    assert raised.value.details == {"causes": [{"message": message}]}
    world.validating = []
    world.validate_with(world.hook("h", behaviour, failurePolicy="Ignore"))
    assert await world.webhooks.validate(attributes()) == []


async def test_an_answer_to_another_question_is_a_failure(world: World) -> None:
    world.validate_with(world.hook("h", lambda review: {**V1, "response": {"uid": "zzz", "allowed": True}}))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.validate(attributes())
    uid = world.server.seen[0][1]["request"]["uid"]
    assert raised.value.message.endswith(f'{INVALID}expected response.uid="{uid}", got "zzz"')


async def test_a_webhook_that_takes_too_long(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection and says nothing
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/h"
        world.validate_with(world.hook("h", clientConfig={"url": url, "caBundle": world.server.bundle}, timeoutSeconds=1))
        with pytest.raises(ApiError) as raised:
            await world.webhooks.validate(attributes())
    assert raised.value.message == (
        f'Internal error occurred: failed calling webhook "h.example.com": {CALL}'
        f'Post "{url}?timeout=1s": context deadline exceeded'
    )


@pytest.mark.parametrize(
    ("client", "text"),
    [
        pytest.param(
            lambda server, _free: {"url": server.url("h")},
            'Post "https://127.0.0.1:{port}/h?timeout=5s": '
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            id="a certificate that nobody vouches for",
        ),
        pytest.param(
            lambda server, free: {"url": f"https://127.0.0.1:{free}/h", "caBundle": server.bundle},
            'Post "https://127.0.0.1:{free}/h?timeout=5s": dial tcp 127.0.0.1:{free}: connect: connection refused',
            id="nobody listens",
        ),
        pytest.param(
            lambda server, _free: {"service": {"namespace": "nope", "name": "svc", "path": "/p", "port": 8443}},
            'Post "https://svc.nope.svc:8443/p?timeout=5s": service "svc" not found',
            id="a service that does not exist",
        ),
        pytest.param(
            lambda server, _free: {"service": {"namespace": "nope", "name": "svc", "path": "/p"}},
            'Post "https://svc.nope.svc:443/p?timeout=5s": service "svc" not found',
            id="a service on the default port",
        ),
    ],
)
async def test_a_webhook_that_cannot_be_reached(world: World, client: Callable[[Server, int], Json], text: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    world.validate_with(world.hook("h", allow, clientConfig=client(world.server, free)))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.validate(attributes())
    assert raised.value.message == (
        f'Internal error occurred: failed calling webhook "h.example.com": {CALL}'
        + text.format(port=world.server.port, free=free)
    )
    assert world.asked() == []


async def test_a_service_is_resolved_and_its_certificate_checked_by_name(world: World) -> None:
    service = {"namespace": "team", "name": "hook", "path": "/h"}
    world.services["team", "hook"] = ("127.0.0.1", world.server.port)
    world.validate_with(world.hook("h", allow, clientConfig={"service": service, "caBundle": world.server.bundle}))
    await world.webhooks.validate(attributes())
    assert world.asked() == ["h"]
    world.services["team", "other"] = ("127.0.0.1", world.server.port)
    other = world.hook("h", clientConfig={"service": service | {"name": "other"}, "caBundle": world.server.bundle})
    world.validating = [{"metadata": {"name": "v"}, "webhooks": [other]}]
    with pytest.raises(ApiError, match="tls: failed to verify certificate"):
        await world.webhooks.validate(attributes())


async def test_a_webhook_that_asks_to_come_back_is_asked_again(world: World) -> None:
    def busy_once(review: Json) -> Any:
        return (429, {"Retry-After": "0"}, b"busy") if len(world.server.seen) == 1 else answer(review)

    world.validate_with(world.hook("h", busy_once))
    await world.webhooks.validate(attributes())
    assert world.asked() == ["h", "h"]


async def test_a_moved_webhook_is_followed(world: World) -> None:
    world.server.behaviours["there"] = deny(message="moved")
    world.validate_with(world.hook("here", lambda _review: (307, {"Location": world.server.url("there")}, b"")))
    with pytest.raises(ApiError, match="denied the request: moved"):
        await world.webhooks.validate(attributes())
    assert world.asked() == ["here", "there"]


async def test_connections_are_kept(world: World) -> None:
    world.validate_with(world.hook("h", allow))
    for _ in range(3):
        await world.webhooks.validate(attributes())
    assert len({headers["x-test-peer"] for headers in world.server.headers}) == 1


async def test_patches_build_on_each_other_in_order(world: World) -> None:
    world.mutate_with(world.hook("late", patch(add("/data/late", "2"))), name="z")
    world.mutate_with(
        world.hook("one", patch(add("/data/one", "1"))), world.hook("two", patch(add("/data/two", "1"))), name="a"
    )
    attrs = attributes()
    before = attrs.object
    await world.webhooks.mutate(attrs)
    assert world.asked() == ["one", "two", "late"]
    assert attrs.object is not None
    assert attrs.object["data"] == {"x": "y", "one": "1", "two": "1", "late": "2"}
    assert world.server.seen[1][1]["request"]["object"]["data"] == {"x": "y", "one": "1"}
    assert before is not None
    assert before["data"] == {"x": "y"}, "the object itself is never changed"


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        pytest.param({"reinvocationPolicy": "IfNeeded"}, {}, ["one", "two", "one"], id="a later change asks it again"),
        pytest.param({}, {}, ["one", "two"], id="unless it never wanted that"),
        pytest.param({}, {"reinvocationPolicy": "IfNeeded"}, ["one", "two"], id="its own change does not count"),
    ],
)
async def test_reinvocation(world: World, first: Json, second: Json, asked: list[str]) -> None:
    world.mutate_with(world.hook("one", allow, **first), world.hook("two", patch(add("/data/two", "1")), **second))
    await world.webhooks.mutate(attributes())
    assert world.asked() == asked


async def test_nothing_is_asked_again_while_nothing_changes(world: World) -> None:
    replace = {"op": "replace", "path": "/data/x", "value": "y"}
    world.mutate_with(
        world.hook("one", allow, reinvocationPolicy="IfNeeded"), world.hook("two", patch(replace)), world.hook("three", patch())
    )
    attrs = attributes()
    before = attrs.object
    await world.webhooks.mutate(attrs)
    assert world.asked() == ["one", "two", "three"]
    assert attrs.object is before


@pytest.mark.parametrize(
    ("op", "text"),
    [
        pytest.param(
            {"op": "remove", "path": "/nope"},
            "error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value",
            id="removing nothing",
        ),
        pytest.param(
            {"op": "test", "path": "/metadata/name", "value": "zz"},
            "testing value /metadata/name failed: test failed",
            id="a test",
        ),
        pytest.param(
            add("/a/b/c", 1), 'add operation does not apply: doc is missing path: "/a/b/c": missing value', id="adding nowhere"
        ),
        pytest.param({"op": "foo", "path": "/a"}, "Unexpected kind: foo", id="an unknown operation"),
    ],
)
async def test_a_patch_that_does_not_fit_fails_even_if_failures_are_ignored(world: World, op: Json, text: str) -> None:
    world.mutate_with(world.hook("h", patch(op), failurePolicy="Ignore"))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.mutate(attributes())
    assert (raised.value.code, raised.value.message) == (500, f"Internal error occurred: {text}")


def patched(text: bytes, kind: str | None) -> Behaviour:
    return lambda review: answer(
        review, patch=base64.b64encode(text).decode(), **({} if kind is None else {"patchType": kind})
    )  # fmt: skip


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        pytest.param(
            patched(b"[]", None), f"{INVALID}webhook returned response.patch but not response.patchType", id="no patch type"
        ),
        pytest.param(
            patched(b"", "JSONPatch"), f"{INVALID}webhook returned response.patchType but not response.patch", id="no patch"
        ),
        pytest.param(
            patched(b'[{"op":"remove","path":"/data"}]', "MergePatch"), 'unsupported patch type "MergePatch"', id="another type"
        ),
        pytest.param(
            patched(b"zzz", "JSONPatch"),
            f"{UNDECODABLE}invalid character 'z' looking for beginning of value",
            id="no JSON",
        ),
        pytest.param(
            patched(b"{}", "JSONPatch"),
            f"{UNDECODABLE}json: cannot unmarshal object into Go value of type jsonpatch.Patch",
            id="an object",
        ),
    ],
)
async def test_a_patch_that_cannot_be_read_is_a_failed_call(world: World, behaviour: Behaviour, text: str) -> None:
    world.mutate_with(world.hook("h", behaviour))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.mutate(attributes())
    assert raised.value.message == f'Internal error occurred: failed calling webhook "h.example.com": {text}'


async def test_a_refusal_counts_even_with_a_patch(world: World) -> None:
    world.mutate_with(world.hook("h", patch(add("/data/z", "1"), allowed=False)))
    attrs = attributes()
    with pytest.raises(ApiError, match="denied the request"):
        await world.webhooks.mutate(attrs)


async def test_the_first_refusal_in_time_is_told_and_all_are_asked(world: World) -> None:
    fast = threading.Event()

    async def slow(review: Json) -> Json:
        await asyncio.to_thread(fast.wait, 10)
        return answer(review, allowed=False, status={"message": "slow"})

    def quick(review: Json) -> Json:
        threading.Timer(0.2, fast.set).start()
        return answer(review, allowed=False, status={"message": "quick"}, warnings=["w"])

    world.validate_with(world.hook("a", lambda review: (200, {}, slow(review))), world.hook("b", quick))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.validate(attributes())
    assert raised.value.message == 'admission webhook "b.example.com" denied the request: quick'
    assert sorted(world.asked()) == ["a", "b"], "they are asked side by side: one would wait for the other forever"
    assert raised.value.headers == (("warning", '299 - "w"'),)


async def test_warnings_are_returned(world: World) -> None:
    world.mutate_with(world.hook("m", lambda review: answer(review, warnings=["one"])))
    world.validate_with(world.hook("v", lambda review: answer(review, warnings=["two", "three"])))
    assert await world.webhooks.mutate(attributes()) == ["one"]
    assert await world.webhooks.validate(attributes()) == ["two", "three"]


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        pytest.param(["one", "two", "one"], 2, id="each is said once"),
        pytest.param(["x" * 300], 1, id="a long one is left alone"),
        pytest.param([f"{at:03}{'x' * 200}" for at in range(40)], 21, id="many long ones are cut off"),
        pytest.param([f"{at:03}{'x' * 60}" for at in range(100)], 66, id="many short ones are cut off"),
        pytest.param(["a\nb", "", "tab\t"], 0, id="control characters and nothing are dropped"),
    ],
)
def test_how_many_warnings_are_sent(texts: list[str], count: int) -> None:
    assert len(warning_headers(texts)) == count


def test_a_warning_is_quoted() -> None:
    assert warning_headers(['say "hi" \\ there']) == [("warning", r'299 - "say \"hi\" \\ there"')]
    assert {len(value) for _, value in warning_headers(["x" * 5000, "y" * 10])} == {256 + 8, 10 + 8}


def rule(resources: list[str], **more: Any) -> Json:
    return {"apiGroups": ["*"], "apiVersions": ["*"], "resources": resources, "operations": ["*"], **more}


WIDGET = {"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "w"}}


@pytest.mark.parametrize(
    ("hook", "attrs", "asked"),
    [
        pytest.param({"rules": [rule(["configmaps"])]}, {}, True, id="the resource itself"),
        pytest.param({"rules": [rule(["configmaps/*"])]}, {}, True, id="a resource with all its parts"),
        pytest.param({"rules": [rule(["*"])]}, {}, True, id="any resource"),
        pytest.param({"rules": [rule(["*"])]}, {"resource": DEPLOYMENTS, "subresource": "scale"}, False, id="but no part"),
        pytest.param({"rules": [rule(["*/scale"])]}, {"resource": DEPLOYMENTS, "subresource": "scale"}, True, id="any scale"),
        pytest.param(
            {"rules": [rule(["deployments/*"])]}, {"resource": DEPLOYMENTS, "subresource": "status"}, True, id="its parts"
        ),
        pytest.param({"rules": [rule(["*/status"])]}, {}, False, id="a part that is not meant"),
        pytest.param({"rules": [rule(["pods"])]}, {}, False, id="another resource"),
        pytest.param({"rules": [rule(["*/*"], operations=["UPDATE"])]}, {}, False, id="another operation"),
        pytest.param({"rules": [rule(["*/*"], apiGroups=["apps"])]}, {}, False, id="another group"),
        pytest.param({"rules": [rule(["*/*"], apiVersions=["v2"])]}, {}, False, id="another version"),
        pytest.param({"rules": [rule(["*/*"], scope="Cluster")]}, {}, False, id="another scope"),
        pytest.param(
            {"rules": [rule(["*/*"], scope="Cluster")]}, {"resource": NODES, "namespace": ""}, True, id="cluster scope"
        ),
        pytest.param(
            {"rules": [rule(["*/*"], scope="Namespaced")]}, {"resource": NAMESPACES}, False, id="a namespace is not in one"
        ),
        pytest.param({"rules": []}, {}, False, id="no rules"),
        pytest.param({"namespaceSelector": {"matchLabels": {"env": "prod"}}}, {}, True, id="its namespace is chosen"),
        pytest.param({"namespaceSelector": {"matchLabels": {"env": "dev"}}}, {}, False, id="its namespace is not chosen"),
        pytest.param(
            {"namespaceSelector": {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]}},
            {},
            False,
            id="its namespace is spared",
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"env": "dev"}}},
            {"resource": NODES, "namespace": ""},
            True,
            id="no namespace",
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"env": "dev"}}},
            {"resource": NAMESPACES, "name": "team", "object": {"metadata": {"labels": {"env": "dev"}}}, "old": NAMESPACE},
            True,
            id="a namespace is chosen by its new labels",
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"env": "prod"}}},
            {"resource": NAMESPACES, "operation": "DELETE", "name": "team", "object": None, "old": NAMESPACE},
            True,
            id="a namespace that goes is chosen by the labels it has",
        ),
        pytest.param({"objectSelector": {"matchLabels": {"a": "b"}}}, {}, False, id="an object without the label"),
        pytest.param(
            {"objectSelector": {"matchLabels": {"a": "b"}}},
            {"old": {"metadata": {"labels": {"a": "b"}}}},
            True,
            id="an object that loses the label",
        ),
        pytest.param(
            {"objectSelector": {"matchLabels": {"a": "b"}}}, {"object": None, "operation": "CONNECT"}, False, id="no object"
        ),
        pytest.param({}, {"resource": HOOKS, "namespace": ""}, False, id="webhooks do not guard webhooks"),
        pytest.param({"matchConditions": [{"name": "c", "expression": 'object.data.x == "y"'}]}, {}, True, id="a condition"),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": "oldObject != null"}]}, {}, False, id="a false condition"
        ),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": 'request.userInfo.username == "jane" && !request.dryRun'}]},
            {},
            True,
            id="a condition on the request",
        ),
        pytest.param(
            {
                "matchConditions": [
                    {"name": "c", "expression": "object.nope.x == 1"},
                    {"name": "d", "expression": "false"},
                ]
            },
            {},
            False,
            id="a false condition outweighs a broken one",
        ),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": "object.nope.x == 1"}], "failurePolicy": "Ignore"},
            {},
            False,
            id="a broken condition, ignored",
        ),
        pytest.param(
            {"rules": [rule(["widgets"], apiVersions=["v1"])], "matchPolicy": "Exact"},
            {"resource": OLD_WIDGETS, "object": WIDGET},
            False,
            id="the exact version",
        ),
    ],
)
async def test_who_is_asked(world: World, hook: Json, attrs: Json, asked: bool) -> None:
    world.validate_with(world.hook("h", allow, **hook))
    world.mutate_with(world.hook("h", allow, **hook))
    await world.webhooks.mutate(attributes(**attrs))
    await world.webhooks.validate(attributes(**attrs))
    assert world.asked() == (["h", "h"] if asked else [])


async def test_a_broken_condition_refuses(world: World) -> None:
    world.validate_with(world.hook("h", allow, matchConditions=[{"name": "c", "expression": "object.nope.x == 1"}]))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.validate(attributes())
    assert (raised.value.code, raised.value.reason) == (403, "Forbidden")
    assert raised.value.message == (
        "configmaps \"a\" is forbidden: expression 'object.nope.x == 1' resulted in error: no such key: nope"
    )


async def test_an_equivalent_version_is_converted_there_and_back(world: World) -> None:
    world.mutate_with(world.hook("h", patch(add("/spec", {"n": 1})), rules=[rule(["widgets"], apiVersions=["v1"])]))
    attrs = attributes(resource=OLD_WIDGETS, object=WIDGET, name="w")
    await world.webhooks.mutate(attrs)
    [(_, review)] = world.server.seen
    request = review["request"]
    assert request["kind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert request["requestKind"] == {"group": "example.com", "version": "v1beta1", "kind": "Widget"}
    assert request["object"]["apiVersion"] == "example.com/v1"
    assert attrs.object == WIDGET | {"spec": {"n": 1}}


async def test_side_effects_forbid_a_dry_run(world: World) -> None:
    world.validate_with(world.hook("h", allow, sideEffects="Some"))
    await world.webhooks.validate(attributes())
    with pytest.raises(ApiError) as raised:
        await world.webhooks.validate(attributes(dry_run=True))
    assert (raised.value.code, raised.value.message) == (400, 'admission webhook "h.example.com" does not support dry run')


async def test_changed_configurations_and_resources_take_effect_at_once(world: World) -> None:
    attrs = attributes(resource=OLD_WIDGETS, object=WIDGET)
    assert await world.webhooks.validate(attrs) == []
    world.validate_with(world.hook("h", allow, rules=[rule(["widgets"], apiVersions=["v2"])]))
    await world.webhooks.validate(attrs)
    assert world.asked() == []
    world.registry.add(Resource("example.com", "v2", "widgets", "widget", "Widget", namespaced=True, storage=WIDGETS.storage))
    await world.webhooks.validate(attrs)
    assert world.asked() == ["h"]
    world.validating = []
    await world.webhooks.validate(attrs)
    assert world.asked() == ["h"]


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
