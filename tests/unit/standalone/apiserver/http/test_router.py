"""What a request is authorized for is what it acts on: every kind, every path that could name it, every method.

The server is asked by somebody who may do everything; who is asked for the right, and which objects the store is asked for,
is written down and compared.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kinds import GAUGES, TANKS
from tests.unit.standalone.apiserver.served_kinds import registry
from tests.unit.standalone.apiserver.server_kit import Kit, credentials, request, running_kit
from ullage.standalone.apiserver.auth.rbac import Decision
from ullage.standalone.apiserver.auth.rules import AccessAttributes
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.http.router import Router
from ullage.standalone.apiserver.kinds.builtin import TRANSIENT
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.request.answers import Answer, Stream, Tunnel
from ullage.standalone.apiserver.status import ApiError

Json = dict[str, Any]
Key = tuple[str, str, str]  # storage, namespace, name

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MERGE = "application/merge-patch+json"


class Notes:
    """Whose right was asked for, and which keys of which storages were looked at or written."""

    def __init__(self) -> None:
        self.asked: list[AccessAttributes] = []
        self.read: set[Key] = set()
        self.written: set[Key] = set()
        self.listed: set[tuple[str, str]] = set()  # storage, namespace

    def clear(self) -> None:
        self.asked.clear()
        self.read.clear()
        self.written.clear()
        self.listed.clear()


def listen(kit: Kit, notes: Notes) -> Router:
    """Notes down what the server is asked from now on."""
    router = kit.server.app._handle.__self__  # type: ignore[attr-defined]
    assert isinstance(router, Router)
    authorizer, store = router._authorizer, kit.store

    def authorize(user: User, asked: AccessAttributes) -> Decision:
        notes.asked.append(asked)
        return Decision(True)

    authorizer.authorize = authorize  # type: ignore[method-assign]
    for name in ("get", "head"):
        found = getattr(store, name)

        def one(storage: str, namespace: str, name: str, *, found: Any = found) -> Any:
            notes.read.add((storage, namespace, name))
            return found(storage, namespace, name)

        setattr(store, name, one)
    items = store.items

    def listed(storage: str, namespace: str = "") -> Any:
        notes.listed.add((storage, namespace))
        return items(storage, namespace)

    store.items = listed  # type: ignore[method-assign]
    for name in ("stage", "stage_delete"):
        found = getattr(store, name)

        def write(storage: str, obj: Json, *, expect: int, found: Any = found) -> Any:
            notes.written.add((storage, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
            return found(storage, obj, expect=expect)

        setattr(store, name, write)
    return router


async def seed(kit: Kit) -> None:
    """An object of every kind, in two namespaces where it has one: as bare as it can be, past all validation."""
    for name in ("a", "b"):
        await kit.namespace(name)
    for definition in (GAUGES, TANKS):
        name = definition["metadata"]["name"]
        await kit.create("customresourcedefinitions", name, spec=definition["spec"])
        await kit.server.controllers[0]._process(name)
    for resource in kit.server.registry:
        if resource.group in TRANSIENT or resource.plural == "namespaces" or resource.plural == "customresourcedefinitions":
            continue
        for namespace in ("a", "b") if resource.namespaced else ("",):
            if kit.store.get(resource.storage, namespace, "one") is None:
                await kit.store.stage(resource.storage, bare(resource, namespace), expect=0)


def bare(resource: Resource, namespace: str, name: str = "one") -> Json:
    meta: Json = {"name": name, "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    found: Json = {"apiVersion": resource.storage_version, "kind": resource.kind, "metadata": meta, "spec": {}}
    if namespace:
        meta["namespace"] = namespace
    return found


def paths(resource: Resource) -> Iterator[str]:
    """Every path that could be taken for one of the kind, in its own scope and in the other, the old prefix included."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    named = "b" if resource.plural == "namespaces" else "one"
    for base in (root, f"{root}/watch"):
        for scope in ("", "/namespaces/a"):
            whole = f"{base}{scope}/{resource.plural}"
            yield whole
            yield f"{whole}/{named}"
            for sub in (*resource.subresources, "status", "bogus"):
                yield f"{whole}/{named}/{sub}"


KINDS = sorted({(one.group, one.plural) for one in registry()} | {("e2e.example.com", "gauges"), ("e2e.example.com", "tanks")})


@asynccontextmanager
async def noted(data_dir: Path) -> AsyncIterator[tuple[Kit, Router, Notes]]:
    """A server whose controllers rest: all that is written is written for a request."""
    async with running_kit(data_dir, work=False) as kit:
        await seed(kit)
        notes = Notes()
        router = listen(kit, notes)
        yield kit, router, notes


async def send(router: Router, method: str, path: str, resource: Resource) -> Answer | Stream | ApiError:
    body = b""
    if method in ("POST", "PUT", "PATCH"):
        sent: Json = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
        if method != "PATCH":
            named = "b" if resource.plural == "namespaces" else "one"
            sent["metadata"] = {"name": named if method == "PUT" else "new"}
        body = json.dumps(sent).encode()
    media = MERGE if method == "PATCH" else "application/json"
    authorization = f"Bearer {credentials().admin_token}"
    try:
        answer = await router.handle(request(method, path, body=body, content_type=media, authorization=authorization), None)
    except ApiError as error:
        return error
    assert not isinstance(answer, Tunnel), "nothing here asks for an upgrade"
    return answer


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[1]}.{kind[0]}".rstrip("."))
def test_what_is_authorized_is_what_is_acted_on(kind: tuple[str, str], tmp_path: Path) -> None:
    async def run() -> None:
        async with noted(tmp_path) as (kit, router, notes):
            for resource in kit.server.registry.versions(*kind):
                for path in paths(resource):
                    for method in METHODS:
                        notes.clear()
                        answer = await send(router, method, path, resource)
                        check(resource, notes, answer, f"{method} {path}")

    asyncio.run(run())


def check(resource: Resource, notes: Notes, answer: Answer | Stream | ApiError, where: str) -> None:
    code = 200 if isinstance(answer, Stream) else answer.code
    path = where.partition(" ")[2]
    first = notes.asked[0]
    touched = {key for key in notes.read if key[0] == resource.storage} | notes.written
    other = (first.group, first.resource) != (resource.group, resource.plural)  # `namespaces/b/bogus` is no subresource
    inside, whole = "/namespaces/a/" in path, path.endswith(f"/{resource.plural}")
    watched = resource.custom is not None and "/watch/" in path  # a custom kind's objects of a name, wherever they are
    if other or (inside and not resource.namespaced) or (resource.namespaced and not inside and not whole and not watched):
        assert (code, touched) == (404, set()), where
    namespace = first.namespace if resource.namespaced else ""
    storage = "pods" if resource.plural == "bindings" else resource.storage
    for place, home, name in touched:
        assert (place, home) == (storage, namespace), f"{where}: asked for {first}, touched {place} {home}/{name}"
        if first.name:
            assert name == first.name, f"{where}: asked for {first}, touched {name}"
    if first.verb in ("list", "watch", "deletecollection"):
        assert {home for place, home in notes.listed if place == storage} <= {namespace}, where
