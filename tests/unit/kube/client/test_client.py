"""The typed verbs: what they send, what they take apart, and what they refuse to send."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from tests.unit.kube.client.scripted import (
    GAUGES,
    PARTS,
    TANKS,
    Gauge,
    GaugeSpec,
    Scripted,
    Step,
    answer,
    chunks,
    gauge,
    silence,
    status,
)
from ullage.errors import BadInput
from ullage.kube.client.client import Client, Listing, WatchEvent
from ullage.kube.client.codec import encode_status
from ullage.kube.client.config import Config
from ullage.kube.errors import BadRequest, Conflict, Gone, Invalid, NotFound, Unavailable, Undecodable
from ullage.kube.kinds import Kind, Meta

A = Gauge(metadata=Meta(name="a", namespace="ns", resource_version="7"), spec=GaugeSpec(capacity=1))


def line(type_: str, obj: Any) -> bytes:
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


async def events(client: Client, **more: Any) -> list[WatchEvent[Gauge]]:
    return [event async for event in client.watch(GAUGES, "ns", resource_version="5", **more)]


async def test_get_decodes_the_fields_that_the_type_names() -> None:
    async with Scripted(answer(200, gauge(other={"x": 1}))).running() as server, Client(server.config()) as client:
        assert await client.get(GAUGES, "a", "ns") == A
        assert server.seen[0].target == "/apis/example.com/v1/namespaces/ns/gauges/a"


NAMED = {"group": "example.com", "kind": "gauges", "name": "a"}


async def test_find_is_none_for_what_is_not_there() -> None:
    gone = status(404, "NotFound", details=NAMED)
    async with Scripted(gone, gone).running() as server, Client(server.config()) as client:
        assert await client.find(GAUGES, "a", "ns") is None
        with pytest.raises(NotFound):
            await client.get(GAUGES, "a", "ns")


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(status(404, "NotFound", details={}), id="a kind or version that is not served"),
        pytest.param(answer(404, b"404 page not found"), id="a proxy"),
        pytest.param(status(404, "NotFound", details={**NAMED, "name": "b"}), id="another object"),
        pytest.param(status(404, "NotFound", details={**NAMED, "group": "", "kind": "namespaces"}), id="another kind"),
        pytest.param(status(404, "Elsewhere", details=NAMED), id="another reason"),
    ],
)
async def test_find_raises_a_404_that_does_not_name_the_object(step: Step) -> None:
    async with Scripted(step).running() as server, Client(server.config()) as client:
        with pytest.raises(NotFound):
            await client.find(GAUGES, "a", "ns")


async def test_a_path_in_front_of_the_api_is_kept() -> None:
    async with Scripted(answer(200, gauge())).running() as server:
        async with Client(Config(server=f"{server.url}/k8s/clusters/c-1")) as client:
            await client.get(TANKS, "a")
        assert server.seen[0].target == "/k8s/clusters/c-1/apis/example.com/v1/tanks/a"


@pytest.mark.parametrize(
    ("name", "namespace", "where"),
    [
        pytest.param("", "ns", "name", id="no name, which would be the whole collection"),
        pytest.param("..", "ns", "name", id="the parent"),
        pytest.param(".", "ns", "name", id="the same"),
        pytest.param("a/status", "ns", "name", id="another resource"),
        pytest.param("a%2fstatus", "ns", "name", id="another resource, packed"),
        pytest.param("a", "", "namespace", id="no namespace"),
        pytest.param("a", "..", "namespace", id="above all namespaces"),
        pytest.param("a", "ns/secrets", "namespace", id="another kind"),
    ],
)
async def test_names_that_lead_elsewhere_are_refused_before_anything_is_sent(name: str, namespace: str, where: str) -> None:
    bad = Gauge(metadata=Meta(name=name, namespace=namespace, resource_version="1"), spec=GaugeSpec(capacity=1))
    async with Scripted(answer(200, gauge())).running() as server, Client(server.config()) as client:
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: client.get(GAUGES, name, namespace),
            lambda: client.delete(GAUGES, name, namespace),
            lambda: client.patch(GAUGES, name, namespace, merge={}),
            lambda: client.update(GAUGES, bad),
            lambda: client.update_status(GAUGES, bad),
        ]
        if where == "namespace":
            calls.append(lambda: client.create(GAUGES, bad))
        for call in calls:
            with pytest.raises(BadInput, match=rf"^{where} "):
                await call()
        assert server.seen == []


async def test_odd_names_are_quoted() -> None:
    async with Scripted(answer(200, gauge())).running() as server, Client(server.config()) as client:
        await client.get(TANKS, "system:a b?c#d=é")
        assert server.seen[0].target == "/apis/example.com/v1/tanks/system:a%20b%3Fc%23d%3D%C3%A9"


async def test_create_sends_what_types_do_not_carry() -> None:
    async with Scripted(answer(201, gauge())).running() as server, Client(server.config(), user_agent="ullage/9 (x)") as client:
        made = await client.create(GAUGES, msgspec.structs.replace(A, metadata=Meta(generate_name="a-", namespace="ns")))
        await client.create(GAUGES, A, dry_run=True)
    first, second = server.seen
    assert made == A
    assert (first.method, first.target) == ("POST", "/apis/example.com/v1/namespaces/ns/gauges")
    assert (first.headers["user-agent"], first.headers["content-type"]) == ("ullage/9 (x)", "application/json")
    assert first.json() == {
        "apiVersion": "example.com/v1",
        "kind": "Gauge",
        "metadata": {"generateName": "a-", "namespace": "ns"},
        "spec": {"capacity": 1},
    }
    assert second.query == {"dryRun": "All"}


async def test_update_puts_the_whole_object_with_its_version() -> None:
    async with Scripted(answer(200, gauge())).running() as server, Client(server.config()) as client:
        await client.update(GAUGES, A)
        await client.update_status(GAUGES, A)
    first, second = server.seen
    assert (first.method, first.path) == ("PUT", "/apis/example.com/v1/namespaces/ns/gauges/a")
    assert first.json() == {"apiVersion": "example.com/v1", "kind": "Gauge", **gauge()}
    assert second.path == "/apis/example.com/v1/namespaces/ns/gauges/a/status"


async def test_a_status_is_put_alone_and_answered_by_its_metadata() -> None:
    answered = {"kind": "PartialObjectMetadata", "metadata": {"name": "a", "namespace": "ns", "resourceVersion": "8"}}
    async with Scripted(answer(200, answered), answer(200, gauge())).running() as server, Client(server.config()) as client:
        meta = await client.put_status(GAUGES, A.metadata, encode_status(GAUGES, A.metadata, GaugeSpec(capacity=3)))
        await client.get(GAUGES, "a", "ns")
    first, second = server.seen
    assert meta.resource_version == "8"
    assert (first.method, first.path) == ("PUT", "/apis/example.com/v1/namespaces/ns/gauges/a/status")
    assert first.headers["accept"] == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert second.headers["accept"] == "application/json, */*"  # KubeVirt's API answers 406 to application/json alone
    assert first.json()["status"] == {"capacity": 3}
    assert "spec" not in first.json()


async def test_what_must_not_be_put_is_not() -> None:
    async with Scripted(answer(200, gauge())).running() as server, Client(server.config()) as client:
        with pytest.raises(TypeError, match="decoded partly"):
            await client.update(PARTS, A)
        with pytest.raises(TypeError, match="no status"):
            await client.update_status(TANKS, A)
        with pytest.raises(TypeError, match="no status"):
            await client.put_status(TANKS, A.metadata, b"{}")
        with pytest.raises(ValueError, match="resourceVersion"):
            await client.update(GAUGES, msgspec.structs.replace(A, metadata=Meta(name="a", namespace="ns")))
        assert server.seen == []


DEMAND = {"uid": "u", "resource_version": "3"}


@pytest.mark.parametrize(
    ("given", "content_type", "body"),
    [
        pytest.param({"merge": {"spec": {"x": None}}}, "merge-patch+json", {"spec": {"x": None}}, id="merge"),
        pytest.param(
            {"merge": {"metadata": {"labels": {"a": "b"}}}, **DEMAND},
            "merge-patch+json",
            {"metadata": {"labels": {"a": "b"}, "uid": "u", "resourceVersion": "3"}},
            id="merge, with conditions",
        ),
        pytest.param(
            {"json_patch": [{"op": "remove", "path": "/spec"}], **DEMAND},
            "json-patch+json",
            [
                {"op": "remove", "path": "/spec"},
                {"op": "replace", "path": "/metadata/uid", "value": "u"},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "3"},
            ],
            id="JSON patch, with conditions",
        ),
        pytest.param(
            {"apply": {"spec": {"x": 1}}, "resource_version": "3"},
            "apply-patch+yaml",
            {
                "apiVersion": "example.com/v1",
                "kind": "Gauge",
                "metadata": {"name": "a", "resourceVersion": "3"},
                "spec": {"x": 1},
            },
            id="apply, with a condition",
        ),
    ],
)
async def test_patches(given: dict[str, Any], content_type: str, body: Any) -> None:
    async with Scripted(answer(200, gauge())).running() as server, Client(server.config()) as client:
        assert await client.patch(PARTS, "a", "ns", **given, subresource="status", force=True, dry_run=True) == A
    seen = server.seen[0]
    assert (seen.method, seen.path) == ("PATCH", "/apis/example.com/v1/namespaces/ns/gauges/a/status")
    assert seen.query == {"fieldManager": "ullage", "force": "true", "dryRun": "All"}
    assert seen.headers["content-type"] == f"application/{content_type}"
    assert seen.json() == body


async def test_a_uid_alone_is_no_condition_on_a_status() -> None:
    async with Scripted(answer(200, gauge())).running() as server, Client(server.config()) as client:
        with pytest.raises(ValueError, match="only together with a resource_version"):
            await client.patch(GAUGES, "a", "ns", merge={}, subresource="status", uid="u")
        assert server.seen == []


async def test_exactly_one_patch_is_given() -> None:
    async with Scripted(answer(200, gauge())).running() as server, Client(server.config()) as client:
        with pytest.raises(TypeError, match="exactly one"):
            await client.patch(GAUGES, "a", "ns")
        with pytest.raises(TypeError, match="exactly one"):
            await client.patch(GAUGES, "a", "ns", merge={}, apply={})
        assert server.seen == []


async def test_a_patch_for_another_uid_is_a_conflict() -> None:
    """kube-apiserver calls it an edit of an immutable field, and 422."""
    step = status(422, "Invalid", details={"causes": [{"field": "metadata.uid", "reason": "FieldValueInvalid"}]})
    async with Scripted(step).running() as server, Client(server.config()) as client:
        with pytest.raises(Conflict):
            await client.patch(GAUGES, "a", "ns", merge={}, uid="u")
        with pytest.raises(Invalid):
            await client.patch(GAUGES, "a", "ns", merge={"metadata": {"uid": "x"}})


async def test_delete_carries_its_conditions() -> None:
    async with Scripted(answer(200, {"kind": "Status"})).running() as server, Client(server.config()) as client:
        await client.delete(GAUGES, "a", "ns", **DEMAND, propagation="Orphan", dry_run=True)
        await client.delete(TANKS, "t")
    options = {"apiVersion": "v1", "kind": "DeleteOptions"}
    assert [(seen.method, seen.target, seen.json()) for seen in server.seen] == [
        (
            "DELETE",
            "/apis/example.com/v1/namespaces/ns/gauges/a",
            {
                **options,
                "preconditions": {"uid": "u", "resourceVersion": "3"},
                "propagationPolicy": "Orphan",
                "dryRun": ["All"],
            },
        ),
        ("DELETE", "/apis/example.com/v1/tanks/t", options),
    ]


class NotNow(Exception):
    pass


async def test_a_guarded_client_writes_nothing_that_its_guard_refuses() -> None:
    def guard() -> None:
        raise NotNow

    async with Scripted(answer(200, gauge())).running() as server, Client(server.config(), guard=guard) as client:
        for write in (
            client.create(GAUGES, A),
            client.update(GAUGES, A),
            client.update_status(GAUGES, A),
            client.patch(GAUGES, "a", "ns", merge={}),
            client.delete(GAUGES, "a", "ns"),
            client.request("POST", "/x"),
        ):
            with pytest.raises(NotNow):
                await write
        assert server.seen == []
        await client.get(GAUGES, "a", "ns")
        await client.guarded(None).update(GAUGES, A)
        with pytest.raises(NotNow):
            await client.guarded(None).guarded(guard).update(GAUGES, A)
        assert [seen.method for seen in server.seen] == ["GET", "PUT"]


def page(*names: str, token: str | None = None, version: str = "9") -> dict[str, Any]:
    items = [gauge(name) for name in names]
    return {"metadata": {"resourceVersion": version, **({"continue": token} if token else {})}, "items": items}


async def test_a_list_is_read_page_by_page() -> None:
    server = Scripted(answer(200, page("a", "b", token="t1")), answer(200, page("c", token="t2")), answer(200, page("d")))
    sizes: list[tuple[int, str]] = []

    def each(item: Gauge) -> None:
        sizes.append((len(server.seen), item.metadata.name))

    async with server.running(), Client(server.config()) as client:
        found = await client.list(
            GAUGES, "ns", labels="a=b", fields="metadata.name!=x", resource_version="4", limit=2, each=each
        )
    assert ([item.metadata.name for item in found.items], found.resource_version) == (["a", "b", "c", "d"], "9")
    both = {"labelSelector": "a=b", "fieldSelector": "metadata.name!=x", "limit": "2"}
    assert [seen.query for seen in server.seen] == [
        {**both, "resourceVersion": "4", "resourceVersionMatch": "NotOlderThan"},
        {**both, "continue": "t1"},
        {**both, "continue": "t2"},
    ]
    assert sizes == [(1, "a"), (1, "b"), (2, "c"), (3, "d")]


async def test_a_list_whose_version_is_forgotten_begins_anew_without_pages() -> None:
    server = Scripted(answer(200, page("a", token="t")), status(410, "Expired"), answer(200, page("b", version="20")))
    async with server.running(), Client(server.config()) as client:
        found = await client.list(GAUGES)
    assert ([item.metadata.name for item in found.items], found.resource_version) == (["b"], "20")
    assert server.seen[2].query == {}
    assert server.seen[2].path == "/apis/example.com/v1/gauges"


async def test_a_list_may_be_empty_in_two_ways() -> None:
    async with Scripted(answer(200, page()), answer(200, {"metadata": {}, "items": None})).running() as server:
        async with Client(server.config()) as client:
            assert await client.list(GAUGES, resource_version="0") == Listing([], "9")
            assert await client.list(GAUGES) == Listing([], "")
        assert server.seen[0].query == {"limit": "500", "resourceVersion": "0"}


async def test_null_is_absent() -> None:
    odd = gauge("odd", numbers=None)
    odd["metadata"] |= {"creationTimestamp": None, "labels": None}
    listed = {"metadata": {"resourceVersion": "9"}, "items": [gauge("a"), odd]}
    server = Scripted(answer(200, odd), answer(200, listed), chunks(line("ADDED", odd)))
    async with server.running(), Client(server.config()) as client:
        assert (await client.get(GAUGES, "odd", "ns")).numbers == ()
        assert [item.metadata.name for item in (await client.list(GAUGES)).items] == ["a", "odd"]
        assert [event.object.metadata.labels for event in await events(client)] == [{}]


async def test_an_object_that_does_not_fit_its_type_is_named() -> None:
    bad = gauge("bad", spec={"capacity": "lots"})
    server = Scripted(answer(200, {"metadata": {}, "items": [gauge("a"), bad]}), chunks(line("ADDED", bad)))
    async with server.running(), Client(server.config()) as client:
        wanted = r"^gauges\.example\.com ns/bad: Expected `int`, got `str` - at `\$\.spec\.capacity`$"
        with pytest.raises(Undecodable, match=wanted):
            await client.list(GAUGES)
        with pytest.raises(Undecodable, match=wanted):
            await events(client)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"metadata":', b"\xff"])
async def test_an_answer_that_is_no_list_is_unavailable(body: bytes) -> None:
    async with Scripted(answer(200, body)).running() as server, Client(server.config()) as client:
        with pytest.raises(Unavailable):
            await client.list(GAUGES)


async def test_a_watch_asks_for_what_it_needs() -> None:
    async with Scripted(chunks()).running() as server, Client(server.config()) as client:
        assert await events(client, labels="a=b", timeout=7.9) == []
        assert await events(client, bookmarks=False, initial_events=True) == []
    assert [seen.query for seen in server.seen] == [
        {"watch": "1", "resourceVersion": "5", "labelSelector": "a=b", "timeoutSeconds": "7", "allowWatchBookmarks": "true"},
        {
            "watch": "1",
            "resourceVersion": "5",
            "timeoutSeconds": "300",
            "allowWatchBookmarks": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        },
    ]


BOOKMARK = {
    "kind": "Gauge",
    "metadata": {"resourceVersion": "8", "creationTimestamp": None, "annotations": {"k8s.io/initial-events-end": "true"}},
}
STREAM = (
    line("ADDED", gauge("a")) + b"\n" + line("MODIFIED", gauge("b")) + line("DELETED", gauge("c")) + line("BOOKMARK", BOOKMARK)
)
TOLD = [("ADDED", "a", "7"), ("MODIFIED", "b", "7"), ("DELETED", "c", "7"), ("BOOKMARK", "", "8")]


def members(data: bytes, size: int) -> list[bytes]:
    return [gzip.compress(data[start : start + size]) for start in range(0, len(data), size)]


@pytest.mark.parametrize(
    ("pieces", "encoding"),
    [
        pytest.param([STREAM], "identity", id="all lines at once"),
        pytest.param([STREAM[start : start + 1] for start in range(len(STREAM))], "identity", id="byte by byte"),
        pytest.param([STREAM[:50], STREAM[50:201], STREAM[201:]], "identity", id="cut inside lines"),
        pytest.param([gzip.compress(STREAM)], "gzip", id="one gzip member"),
        pytest.param(members(STREAM, 40), "gzip", id="a gzip member for each piece"),
        pytest.param([b"".join(members(STREAM, 7))], "gzip", id="many gzip members in one piece"),
        pytest.param(
            [gzip.compress(STREAM)[start : start + 1] for start in range(len(gzip.compress(STREAM)))],
            "gzip",
            id="a gzip member byte by byte",
        ),
    ],
)
async def test_a_watch_tells_every_event_however_it_is_cut(pieces: list[bytes], encoding: str) -> None:
    async with Scripted(chunks(*pieces, Content_Encoding=encoding)).running() as server, Client(server.config()) as client:
        told = await events(client)
    assert [(event.type, event.object.metadata.name, event.resource_version) for event in told] == TOLD
    assert [event.ends_initial_events for event in told] == [False, False, False, True]


async def test_every_byte_of_a_watch_is_heard_also_of_an_event_that_is_not_complete() -> None:
    heard: list[str] = []
    long = line("ADDED", gauge("long", spec={"capacity": 1, "note": "x" * 3_000_000}))
    async with Scripted(chunks(long[:100], long[100:])).running() as server, Client(server.config()) as client:
        async for event in client.watch(GAUGES, resource_version="5", heard=lambda: heard.append("bytes")):
            heard.append(event.type)
    assert heard.index("ADDED") > 1, "it was heard before it was complete"


async def test_many_small_gzip_members_are_no_burden() -> None:
    one = line("ADDED", gauge("a"))
    packed = gzip.compress(one) * 5000
    async with Scripted(chunks(packed, Content_Encoding="gzip")).running() as server, Client(server.config()) as client:
        assert len(await events(client)) == 5000


async def test_lines_have_no_limit() -> None:
    long = gauge("long", spec={"capacity": 1, "note": "x" * 3_000_000})
    server = Scripted(chunks(line("ADDED", long), line("ADDED", gauge())))
    async with server.running(), Client(server.config()) as client:
        assert [len(event.object.spec.note) for event in await events(client)] == [3_000_000, 0]


@pytest.mark.parametrize(
    ("pieces", "finish", "known"),
    [
        pytest.param([line("ADDED", gauge()), line("ADDED", gauge())[:20]], True, 1, id="a line that never ends"),
        pytest.param([line("ADDED", gauge())], False, 1, id="a connection that is cut between two events"),
        pytest.param([], False, 0, id="a connection that is cut before the first event"),
        pytest.param([line("ADDED", gauge()), b"garbage\n"], True, 1, id="a line that is no event"),
    ],
)
async def test_a_watch_that_breaks_says_so(pieces: list[bytes], finish: bool, known: int) -> None:
    async with Scripted(chunks(*pieces, finish=finish)).running() as server, Client(server.config()) as client:
        watch = client.watch(GAUGES, resource_version="5")
        for _ in range(known):
            assert (await anext(watch)).type == "ADDED"
        with pytest.raises(Unavailable):
            await anext(watch)


@pytest.mark.parametrize(
    ("step", "error"),
    [
        pytest.param(
            chunks(line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"})),
            Gone,
            id="in an event",
        ),
        pytest.param(status(410, "Expired", "old"), Gone, id="as the answer"),
        pytest.param(status(400, "BadRequest", "old"), BadRequest, id="another refusal"),
    ],
)
async def test_a_watch_that_is_refused(step: Any, error: type[Exception]) -> None:
    async with Scripted(step).running() as server, Client(server.config()) as client:
        with pytest.raises(error, match=r"^old$"):
            await events(client)


async def test_an_error_event_that_cannot_be_read_is_unavailable() -> None:
    async with Scripted(chunks(line("ERROR", "?"))).running() as server, Client(server.config()) as client:
        with pytest.raises(Unavailable):
            await events(client)


async def test_a_watch_that_is_left_early_closes_its_connection() -> None:
    open_end = chunks(line("ADDED", gauge()), finish=False, cut=False)
    async with Scripted(open_end).running() as server, Client(server.config()) as client:
        async with aclosing(client.watch(GAUGES, resource_version="5")) as watch:
            async for _ in watch:
                break
        await asyncio.wait_for(server.left.wait(), 5)


async def test_a_watch_outlives_the_time_that_requests_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that it has is its own; past that, a server that does not end it is taken for dead."""
    monkeypatch.setattr("ullage.kube.client.transport.WATCH_GRACE_SECONDS", -0.8)
    async with Scripted(silence).running() as server, Client(server.config()) as client:
        with pytest.raises(Unavailable, match="no answer in time"):
            await events(client, timeout=1.0)


async def test_served_asks_discovery() -> None:
    found = answer(200, {"kind": "APIResourceList", "resources": [{"name": "gauges"}, {"name": "gauges/status"}]})
    server = Scripted(found, found, status(404, "NotFound"), found)
    async with server.running(), Client(server.config()) as client:
        assert await client.served(GAUGES)
        assert not await client.served(TANKS)
        assert not await client.served(GAUGES)
        await client.served(Kind("", "v1", "Pod", "pods", Gauge))
    assert [seen.target for seen in server.seen] == ["/apis/example.com/v1"] * 3 + ["/api/v1"]


NONE_DEFINED = answer(200, {"metadata": {"resourceVersion": "42"}, "items": []})
DEFINED = answer(200, {"metadata": {"resourceVersion": "42"}, "items": [{"metadata": {"name": "gauges.example.com"}}]})
SERVED = answer(200, {"kind": "APIResourceList", "resources": [{"name": "gauges"}]})
OTHERS_SERVED = answer(200, {"kind": "APIResourceList", "resources": [{"name": "tanks"}]})


async def test_the_latest_version_is_that_of_a_list_of_one() -> None:
    page = answer(200, {"metadata": {"resourceVersion": "42"}, "items": [gauge()]})
    async with Scripted(page).running() as server, Client(server.config()) as client:
        assert await client.latest(GAUGES) == "42"
    assert server.seen[0].target == "/apis/example.com/v1/gauges?limit=1"


@pytest.mark.parametrize(
    ("steps", "version"),
    [
        pytest.param([SERVED], "", id="it is served"),
        pytest.param([status(404, "NotFound"), DEFINED], "", id="no version of the group is served, and it is defined"),
        pytest.param([OTHERS_SERVED, DEFINED], "", id="others of the group are served, and it is defined"),
        pytest.param([OTHERS_SERVED, NONE_DEFINED], "42", id="neither served nor defined"),
    ],
)
async def test_a_kind_is_absent_only_where_it_is_not_defined(steps: list[Step], version: str) -> None:
    async with Scripted(*steps).running() as server, Client(server.config()) as client:
        assert await client.absent(GAUGES) == version
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=metadata.name%3Dgauges.example.com"
    assert [seen.target for seen in server.seen[1:]] == [f"{definitions}&limit=500"] * (len(steps) - 1)


@pytest.mark.parametrize(
    ("step", "error"),
    [
        pytest.param(answer(404, b"404 page not found"), NotFound, id="a 404"),
        pytest.param(answer(200, {}), Unavailable, id="what is no list"),
    ],
)
async def test_definitions_that_cannot_be_listed_prove_nothing(step: Step, error: type[Exception]) -> None:
    async with Scripted(OTHERS_SERVED, step).running() as server, Client(server.config()) as client:
        with pytest.raises(error):
            await client.absent(GAUGES)


async def test_request_sends_anything() -> None:
    async with Scripted(answer(200, b"ok")).running() as server, Client(server.config()) as client:
        assert await client.request("GET", "/healthz", query={"verbose": "1"}) == b"ok"
        await client.request("POST", "/x", body=b"a: 1", content_type="application/yaml")
        with pytest.raises(ValueError, match="begins with /"):
            await client.request("GET", "healthz")
    assert server.seen[0].target == "/healthz?verbose=1"
    assert (server.seen[1].body, server.seen[1].headers["content-type"]) == (b"a: 1", "application/yaml")


async def test_packing_is_asked_for_over_a_network_only() -> None:
    async with Scripted(answer(200, gauge())).running() as server, Client(server.config()) as client:
        await client.get(GAUGES, "a", "ns")
        assert server.seen[0].headers["accept-encoding"] == "identity"
