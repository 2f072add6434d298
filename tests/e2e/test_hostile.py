"""Whoever may send a request is an attacker: strangers, accounts without rights, a tenant with every right in one namespace.

Each sends the worst that we can think of (`tests/e2e/hostile`), while `/readyz` is asked all the time. It may never be slower
than a second, the server's memory stays within 150 MB of where it began, no request crashes in the server, and nothing of
another tenant is read or changed.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet

from .hostile import bodies, connections, handlers, objects, patches, queries
from .hostile.client import Reply, Unanswered, connected
from .hostile.probes import MOST_MEMORY, SLOWEST_READY
from .hostile.scene import ACTORS, CANARY, CROWD, Scene, scene, world

pytestmark = [
    pytest.mark.skipif("E2E_KUBECONFIG" in os.environ, reason="only the process of a server of our own can be looked at"),
    pytest.mark.timeout(600),
]

AT_ONCE = 3  # requests of one actor that are under way at the same time
TRIES = 3  # a busy machine may hold up a probe; the server's own pauses come again
T = TypeVar("T")

# What `make test` tries; `make test-slow` tries all.
USUAL_BODIES = {
    "a million small numbers",
    "a hundred thousand unknown fields",
    "a hundred thousand labels",
    "objects, 9,000 deep",
    "a number of a million digits",
    "bytes that are not UTF-8",
    "aliases of aliases",
    "a hundred thousand anchors",
    "messages in messages",
}
BODIES_FOR_ALL_HANDLERS = {
    "a million empty objects",
    "objects, 500 deep",
    "merge keys of merge keys",
    "a label map of a hundred thousand",
}
USUAL_PATCHES = {
    "a copy that doubles forty times",
    "ten thousand inserts at the front of a long list",
    "moves that go ever deeper",
    "a merge, 500 deep",
    "managedFields of ten thousand managers",
    "twenty thousand finalizers off a list of as many",
    "an apply of a set with one value very often",
}
USUAL_OBJECTS = {
    "a pod of containers with one name",
    "a quantity with a great exponent",
    "a word that a pattern tries in every way",
    "a rule over a hundred thousand numbers",
    "a review for a hundred thousand groups",
}
USUAL_QUERIES = {
    "a hundred thousand labels that are to be absent",
    "fifty thousand fields",
    "a token for another namespace",
    "a token that nests",
    "two hundred thousand parameters",
    "a namespace within a namespace, changed",
    "the other's secrets, by the old watch",
    "a token that says it needs no signature",
}
USUAL_BYTES = {"a length and chunks", "trailers", "two thousand requests at once"}
USUAL_CONNECTIONS = {
    "sixty bodies of which a byte is missing",
    "two hundred heads that do not end",
    "sixty big lists that nobody reads",
}


def cases(catalogue: Sequence[object], usual: set[str], *, by: Sequence[str] = ACTORS) -> list[ParameterSet]:
    """Everything by everybody; usually some of it, by those who are named."""
    assert usual <= {str(what) for what in catalogue}
    return [
        pytest.param(
            actor, what, id=f"{actor}: {what}", marks=() if str(what) in usual and actor in by else (pytest.mark.slow,)
        )
        for what in catalogue
        for actor in ACTORS
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("hostile")) as found:
        before = world(found.admin)
        yield found
        after = world(found.admin)
        assert after.keys() == before.keys()
        changed = [path for path in before if before[path] != after[path]]
        assert not changed, "something outside of the tenant's namespace was changed"
        assert "Traceback" not in found.server.log_tail(), found.server.log_tail()


def check_reply(reply: Reply | None) -> None:
    """Refusals of any sort will do; a crash will not, nor another tenant's secret."""
    if reply is None:
        return
    assert CANARY not in reply, reply.body[:1000]
    if reply.code < 500:
        return
    said = json.loads(reply.body).get("message", "")
    # An apply whose types do not fit is a 500 on kube-apiserver too, and so is a strategic merge that finds no keys.
    assert not said.startswith("Internal error occurred"), f"{reply.code}: {said[:1000]}"


def attack(place: Scene, run: Callable[[], Awaitable[Sequence[Reply | None]]]) -> None:
    """Runs it; again if a probe was slow, for that may have been the machine."""
    for left in reversed(range(TRIES)):
        with place.probes.observe() as effect:
            for reply in asyncio.run(_within(run)):
                check_reply(reply)
        place.clear()
        if effect.slowest <= SLOWEST_READY or not left:
            break
    assert place.server.alive()
    assert effect.slowest <= SLOWEST_READY, effect
    assert effect.peak <= MOST_MEMORY, effect


async def _within(run: Callable[[], Awaitable[T]]) -> T:
    return await run()


async def at_once(work: Sequence[Callable[[], Awaitable[Reply | None]]]) -> list[Reply | None]:
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(ask: Callable[[], Awaitable[Reply | None]]) -> Reply | None:
        async with turn:
            return await ask()

    return list(await asyncio.gather(*(one(ask) for ask in work)))


async def send(place: Scene, actor: str, body: bodies.Body, *, to: Sequence[handlers.Handler]) -> list[Reply | None]:
    async def one(handler: handlers.Handler) -> Reply:
        client = place.client(actor)
        headers = (f"Content-Type: {handler.patch or body.media}", *body.headers)
        try:
            return await client.ask(handler.method, handler.path + handler.query, body.make(handler), headers=headers)
        finally:
            client.close()

    return await at_once([lambda handler=handler: one(handler) for handler in to])  # type: ignore[misc]


@pytest.mark.parametrize(("actor", "body"), cases(bodies.ALL, USUAL_BODIES))
def test_a_body_stops_nobody(place: Scene, actor: str, body: bodies.Body) -> None:
    attack(place, lambda: send(place, actor, body, to=handlers.FEW))


@pytest.mark.slow
@pytest.mark.parametrize("actor", ACTORS)
@pytest.mark.parametrize("body", [body for body in bodies.ALL if body.id in BODIES_FOR_ALL_HANDLERS], ids=str)
def test_a_body_at_any_handler_stops_nobody(place: Scene, actor: str, body: bodies.Body) -> None:
    attack(place, lambda: send(place, actor, body, to=handlers.MORE))


async def lay(place: Scene, actor: str, patch: patches.Patch) -> list[Reply | None]:
    client = place.client(actor)
    try:
        if patch.before is not None and actor == "tenant":
            merge = (f"Content-Type: {handlers.MERGE}",)
            await client.ask("PATCH", patch.path, json.dumps(patch.before()).encode(), headers=merge)
        return [await client.ask("PATCH", patch.path + patch.query, patch.body(), headers=(f"Content-Type: {patch.media}",))]
    finally:
        client.close()


@pytest.mark.parametrize(("actor", "patch"), cases(patches.ALL, USUAL_PATCHES, by=["tenant"]))
def test_a_patch_stops_nobody(place: Scene, actor: str, patch: patches.Patch) -> None:
    attack(place, lambda: lay(place, actor, patch))


async def post(place: Scene, actor: str, made: objects.Object) -> list[Reply | None]:
    """Made; looked at in every way; taken away."""
    client = place.client(actor)
    headers = (f"Content-Type: {handlers.JSON}",)
    try:
        replies = [await client.ask("POST", made.path, made.body(), headers=headers)]
        if replies[0].code == 201 and made.stored:
            path = f"{made.path}/made"
            replies.append(await client.ask("GET", path, headers=(queries.TABLE,)))
            replies.append(await client.ask("PUT", path, made.body(), headers=headers))
            touch = json.dumps({"metadata": {"labels": {"touched": "yes"}}}).encode()
            replies.append(await client.ask("PATCH", path, touch, headers=(f"Content-Type: {handlers.MERGE}",)))
            assert replies[-1].code == 200, "what can be made can be changed"
            replies.append(await client.ask("DELETE", path))
        return list(replies)
    finally:
        client.close()


@pytest.mark.parametrize(("actor", "made"), cases(objects.ALL, USUAL_OBJECTS, by=["tenant"]))
def test_an_object_stops_nobody(place: Scene, actor: str, made: objects.Object) -> None:
    attack(place, lambda: post(place, actor, made))


async def query(place: Scene, actor: str, what: queries.Query) -> list[Reply | None]:
    client = place.client(actor)
    try:
        return [await client.ask(what.method, what.path(), headers=what.headers())]
    finally:
        client.close()


@pytest.mark.parametrize(("actor", "what"), cases(queries.ALL, USUAL_QUERIES, by=["nobody", "tenant"]))
def test_a_query_stops_nobody(place: Scene, actor: str, what: queries.Query) -> None:
    attack(place, lambda: query(place, actor, what))


@pytest.fixture(scope="module")
def crowd(place: Scene) -> Iterator[Scene]:
    """Many small objects, so that what is asked of each of them adds up."""
    path = f"{handlers.CUSTOM}/vessels"
    names = [f"{CROWD}{number}" for number in range(300)]
    for name in names:
        body: dict[str, Any] = {"apiVersion": "hostile.example.com/v1", "kind": "Vessel", "metadata": {"name": name}}
        place.admin.create(path, body | {"spec": {"size": 1}})
    yield place
    for name in names:
        place.admin.call("DELETE", f"{path}/{name}")  # unless a tenant has done so


@pytest.mark.slow
@pytest.mark.parametrize("what", queries.SELECTORS, ids=str)
def test_a_selector_over_many_objects_stops_nobody(crowd: Scene, what: queries.Query) -> None:
    path = what.path().replace("/api/v1/", "/apis/hostile.example.com/v1/").replace("/configmaps", "/vessels")
    attack(crowd, lambda: query(crowd, "tenant", queries.Query(what.id, lambda: path, what.method, what.headers)))


async def speak(place: Scene, actor: str, what: queries.Bytes) -> list[Reply | None]:
    token = place.tokens[actor]
    async with connected(place.address) as connection:
        try:
            said = what.make(f"Authorization: Bearer {token}\r\n".encode() if token else b"")
            return [await connection.ask(said, seconds=2.0)]
        except Unanswered:
            return [None]  # it waits for the rest of a request, as it should


@pytest.mark.parametrize(("actor", "what"), cases(queries.RAW, USUAL_BYTES, by=["stranger", "tenant"]))
def test_bytes_that_are_no_request_stop_nobody(place: Scene, actor: str, what: queries.Bytes) -> None:
    attack(place, lambda: speak(place, actor, what))


async def abuse(place: Scene, actor: str, what: connections.Abuse) -> list[Reply | None]:
    await what.run(place, actor)
    return []


@pytest.mark.parametrize(("actor", "what"), cases(connections.ALL, USUAL_CONNECTIONS, by=["stranger", "tenant"]))
def test_connections_that_are_kept_stop_nobody(place: Scene, actor: str, what: connections.Abuse) -> None:
    attack(place, lambda: abuse(place, actor, what))
