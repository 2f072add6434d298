"""A webhook over real HTTPS on loopback that behaves as a test tells it to, and configurations that a test writes down."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ullage.standalone.apiserver.admission.webhooks.dispatch import Attributes, Webhooks
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.kinds.resources import Registry, Resource, Subresource
from ullage.standalone.apiserver.objects import Json

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
WIDGET = {"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "w"}}
CALL = "failed to call webhook: "
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


def rule(resources: list[str], **more: Any) -> Json:
    return {"apiGroups": ["*"], "apiVersions": ["*"], "resources": resources, "operations": ["*"], **more}
