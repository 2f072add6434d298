"""A cluster that knows some tokens and rights, and requests to an endpoint without a socket."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ullage.clock import SystemClock
from ullage.kube.kinds import Kind, Object, Value
from ullage.kube.routes import Permission, Reply, Route, RouteCall
from ullage.rest.authorization import Authorization
from ullage.rest.endpoint import Endpoint
from ullage.rest.metrics import Metrics
from ullage.rest.page import public_pages

Json = dict[str, Any]

THINGS = Kind("things.io", "v1", "Thing", "things", Object)
ACCESS = Permission(verb="update", kind=THINGS, name="only", words="update things")


class Size(Value):
    """What is to be set."""

    size: int | str
    """The size."""


async def nothing(call: RouteCall) -> Reply:
    return Reply()


def route(name: str = "set-thing", **fields: Any) -> Route:
    given: Json = {
        "method": "POST",
        "paths": ("/v1/things/{namespace}/{name}", "/v1/thing/{namespace}/{name}"),
        "actions": ("set", "put"),
        "access": ACCESS,
        "answer": nothing,
        "body": Size,
        "summary": "Set a thing",
    }
    return Route(name=name, **given | fields)


@dataclass
class Cluster:
    """`users` are by token; `allowed` are the pairs of a name (of a user or a group) and a namespace. What was asked
    is kept."""

    users: dict[str, Json] = field(default_factory=lambda: {"good": {"username": "jane", "uid": "u1", "groups": ["devs"]}})
    allowed: set[tuple[str, str]] = field(default_factory=lambda: {("jane", "team-a")})
    asked: list[Json] = field(default_factory=list)
    answer: bytes | None = None
    error: Exception | None = None

    async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
        asked = json.loads(body or b"{}")
        self.asked.append(asked)
        if self.error is not None:
            raise self.error
        if self.answer is not None:
            return self.answer
        spec = asked["spec"]
        if asked["kind"] == "TokenReview":
            user = self.users.get(spec["token"])
            status: Json = {"authenticated": True, "user": user} if user else {"error": f"{spec['token']} is not known"}
        else:
            who = {spec["user"], *spec["groups"]}
            status = {"allowed": any((one, spec["resourceAttributes"]["namespace"]) in self.allowed for one in who)}
        return msgspec.json.encode(asked | {"status": status})

    @property
    def kinds(self) -> list[str]:
        return [one["kind"] for one in self.asked]


@dataclass(frozen=True)
class Answered:
    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def status(self) -> Json:
        found: Json = json.loads(self.body)
        assert found["kind"] == "Status"
        assert (found["apiVersion"], found["status"], found["code"]) == ("v1", "Failure", self.code)
        return found


class Body:
    """Sends its parts, and then nothing more unless it is whole."""

    def __init__(self, *parts: bytes, whole: bool = True) -> None:
        self.parts = list(parts or (b"",))
        self.whole = whole
        self.asked = 0

    async def receive(self) -> Json:
        self.asked += 1
        if self.parts:
            part = self.parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self.parts) or not self.whole}
        import asyncio

        await asyncio.Event().wait()
        raise AssertionError("nobody ends this")


def endpoint(cluster: Cluster, *routes: Route, metrics: Metrics | None = None, audiences: tuple[str, ...] = ()) -> Endpoint:
    return Endpoint(
        routes,
        authorization=Authorization(cluster, audiences=audiences),
        public=public_pages(routes),
        metrics=metrics or Metrics(),
        clock=SystemClock(),
        checks={"certificate": lambda: True},
    )


async def ask(
    app: Endpoint,
    method: str,
    url: str,
    *,
    token: str | None = "good",
    body: Body | bytes = b"",
    headers: Iterable[tuple[str, str]] = (),
) -> Answered:
    """One request, as uvicorn hands it on: names of headers in lower case."""
    from urllib.parse import unquote

    path, _, query = url.partition("?")
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    content = body if isinstance(body, Body) else Body(body)
    given = [(name.lower().encode(), value.encode()) for name, value in headers]
    if token is not None:
        given.append((b"authorization", f"Bearer {token}".encode()))
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": given,
    }
    await app(scope, content.receive, send)
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answered(sent[0]["status"], told, sent[1]["body"])
