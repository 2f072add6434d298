"""Quotas and projects in memory behind the endpoint of the REST API: requests come with a token, and are judged by rights."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from tests.unit.rest import builders
from tests.unit.rest.builders import Answered
from ullage.kube.client.client import Client
from ullage.kube.client.reader import Listing
from ullage.kube.errors import AlreadyExists, NotFound
from ullage.kube.kinds import Kind, Meta
from ullage.projects.api.kkp import PROJECTS, Project, ProjectSpec
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.routes.administration import administration_routes
from ullage.projects.routes.membership import membership_routes

Json = dict[str, Any]
ADMIN, MEMBER, STRANGER = "admin", "member", "stranger"


@dataclass
class Api:
    """Also who has which rights: administrators all of them, the member `get` on the quota of project abc."""

    objects: dict[tuple[str, str], Any] = field(default_factory=dict)
    writes: list[Json] = field(default_factory=list)
    error: Exception | None = None  # what the next write meets
    listed: int = 0

    def put(self, *quotas: ResourceQuota) -> Api:
        for one in quotas:
            self.objects[PROJECT_QUOTAS.name, one.metadata.name] = one
        return self

    def project(self, name: str, shown: str) -> Api:
        self.objects[PROJECTS.name, name] = Project(metadata=Meta(name=name), spec=ProjectSpec(name=shown))
        return self

    def quota(self, name: str) -> ResourceQuota:
        return cast(ResourceQuota, self.objects[PROJECT_QUOTAS.name, name])

    # --- as the client does it ---

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        return self.objects.get((kind.name, name))

    async def list(self, kind: Kind[Any], namespace: str = "", *, labels: str = "") -> Listing[Any]:
        self.listed += 1
        key, _, value = labels.partition("=")
        items = [one for (of, _), one in self.objects.items() if of == kind.name]
        return Listing([one for one in items if not labels or one.metadata.labels.get(key) == value], "1")

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        self._meet()
        if (kind.name, obj.metadata.name) in self.objects:
            raise AlreadyExists("it exists", code=409)
        self.objects[kind.name, obj.metadata.name] = obj
        return obj

    async def patch(self, kind: Kind[Any], name: str, *, merge: Json, uid: str, field_manager: str) -> Any:
        self._meet()
        self.writes.append(merge)
        old = msgspec.to_builtins(self.objects[kind.name, name])
        assert old["metadata"]["uid"] == uid
        made = self.objects[kind.name, name] = msgspec.convert(_merged(old, merge), kind.type)
        return made

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "") -> None:
        self._meet()
        if self.objects.pop((kind.name, name), None) is None:
            raise NotFound("it is gone", code=404)

    def _meet(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error

    async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
        asked = json.loads(body or b"{}")
        spec = asked["spec"]
        if asked["kind"] == "TokenReview":
            known = spec["token"] in (ADMIN, MEMBER, STRANGER)
            status: Json = {"authenticated": known, "user": {"username": spec["token"]}} if known else {}
        else:
            wanted = spec["resourceAttributes"]
            assert (wanted["group"], wanted["resource"]) == ("kubermatic.k8c.io", "resourcequotas")
            own = spec["user"] == MEMBER and (wanted["verb"], wanted["name"]) == ("get", "project-abc")
            status = {"allowed": spec["user"] == ADMIN or own}
        return msgspec.json.encode(asked | {"status": status})

    # --- requests ---

    async def ask(self, method: str, url: str, body: Any = None, *, token: str | None = ADMIN) -> Answered:
        client = cast(Client, self)
        app = builders.endpoint(cast(Any, self), *administration_routes(client), *membership_routes(client))
        sent = b"" if body is None else json.dumps(body).encode()
        return await builders.ask(app, method, url, token=token, body=sent)

    async def get(self, url: str, **given: Any) -> Any:
        answered = await self.ask("GET", url, **given)
        assert answered.code == 200, answered.body
        return json.loads(answered.body)


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    made = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = _merged(made.get(key), value)
    return made
