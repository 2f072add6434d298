"""Our own client against a whole control plane: what it promises holds on every server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from ullage.kube.client.client import Client
from ullage.kube.client.codec import encode_status
from ullage.kube.client.config import Config, Impersonation
from ullage.kube.errors import (
    AlreadyExists,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    Unauthorized,
)
from ullage.kube.kinds import Kind, Meta, Object, Value

from .api import Api
from .kinds import GROUP


class ConfigMap(Object):
    data: Mapping[str, str] = {}


class GaugeSpec(Value):
    capacity: int
    mode: str = ""


class GaugeStatus(Value):
    level: int = 0


class Gauge(Object):
    spec: GaugeSpec  # has no default, as the kind demands: bookmarks lack it
    status: GaugeStatus = GaugeStatus()


MAPS = Kind("", "v1", "ConfigMap", "configmaps", ConfigMap, status=False)
GAUGES = Kind(GROUP, "v1", "Gauge", "gauges", Gauge)
OLD_GAUGES = Kind(GROUP, "v1alpha1", "Gauge", "gauges", Gauge)  # a version that is not served


@pytest_asyncio.fixture
async def client(api: Api) -> AsyncIterator[Client]:
    async with Client(Config.load(api.plane.kubeconfig), user_agent="ullage/test (e2e)") as made:
        yield made


def gauge(name: str, namespace: str, **spec: Any) -> Gauge:
    return Gauge(metadata=Meta(name=name, namespace=namespace), spec=GaugeSpec(**{"capacity": 10, **spec}))


def config_map(name: str, namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=Meta(name=name, namespace=namespace), data=data)


async def test_an_object_lives_through_every_verb(client: Client, namespace: str) -> None:
    made = await client.create(GAUGES, gauge("a", namespace))
    assert (made.spec.mode, made.metadata.generation) == ("Loose", 1)
    assert await client.get(GAUGES, "a", namespace) == made
    grown = await client.update(GAUGES, msgspec.structs.replace(made, spec=GaugeSpec(capacity=20)))
    assert (grown.spec.capacity, grown.metadata.uid) == (20, made.metadata.uid)
    shown = await client.update_status(GAUGES, msgspec.structs.replace(grown, status=GaugeStatus(level=3)))
    assert (shown.status.level, shown.spec.capacity) == (3, 20)
    with pytest.raises(Conflict):
        await client.update_status(GAUGES, msgspec.structs.replace(grown, status=GaugeStatus(level=4)))
    patched = await client.patch(GAUGES, "a", namespace, merge={"status": {"level": 5}}, subresource="status")
    assert patched.status.level == 5
    await client.delete(GAUGES, "a", namespace, uid=made.metadata.uid)
    assert await client.find(GAUGES, "a", namespace) is None


async def test_a_status_is_put_alone(client: Client, namespace: str) -> None:
    """What is not sent stays, and what comes back is the metadata with the version that the object has then."""
    made = await client.create(GAUGES, gauge("a", namespace))
    labelled = await client.patch(GAUGES, "a", namespace, merge={"metadata": {"labels": {"k": "v"}}})
    body = encode_status(GAUGES, labelled.metadata, GaugeStatus(level=3))
    assert b"capacity" not in body
    meta = await client.put_status(GAUGES, labelled.metadata, body)
    found = await client.get(GAUGES, "a", namespace)
    assert found.metadata == meta
    assert (found.status.level, found.spec, meta.labels) == (3, made.spec, {"k": "v"})
    with pytest.raises(Conflict):
        await client.put_status(GAUGES, labelled.metadata, body)


async def test_the_writer_is_known_by_the_clients_name(client: Client, namespace: str) -> None:
    await client.create(MAPS, config_map("a", namespace, k="v"))
    raw = msgspec.json.decode(await client.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/a"))
    assert [entry["manager"] for entry in raw["metadata"]["managedFields"]] == ["ullage"]


async def test_dry_runs_change_nothing(client: Client, namespace: str) -> None:
    made = await client.create(MAPS, config_map("a", namespace, k="v"))
    assert (await client.create(MAPS, config_map("b", namespace), dry_run=True)).metadata.uid
    assert (await client.patch(MAPS, "a", namespace, merge={"data": {"k": "w"}}, dry_run=True)).data == {"k": "w"}
    await client.delete(MAPS, "a", namespace, dry_run=True)
    assert await client.find(MAPS, "b", namespace) is None
    assert await client.get(MAPS, "a", namespace) == made


PATCHES: dict[str, dict[str, Any]] = {
    "merge": {"merge": {"data": {"k": "new"}}},
    "JSON patch": {"json_patch": [{"op": "add", "path": "/data/k", "value": "new"}]},
    "apply": {"apply": {"data": {"k": "new"}}, "force": True},
}


@pytest.mark.parametrize("how", PATCHES)
async def test_a_patch_fits_only_the_object_that_it_names(client: Client, namespace: str, how: str) -> None:
    patch = PATCHES[how]
    old = await client.create(MAPS, config_map("a", namespace, k="v"))
    await client.delete(MAPS, "a", namespace)
    new = await client.create(MAPS, config_map("a", namespace, k="v"))
    with pytest.raises(Conflict):
        await client.patch(MAPS, "a", namespace, **patch, uid=old.metadata.uid)
    with pytest.raises(Conflict):
        await client.patch(MAPS, "a", namespace, **patch, resource_version=old.metadata.resource_version)
    assert await client.get(MAPS, "a", namespace) == new
    this: dict[str, Any] = {"uid": new.metadata.uid, "resource_version": new.metadata.resource_version}
    done = await client.patch(MAPS, "a", namespace, **patch, **this)
    assert (done.data, done.metadata.uid) == ({"k": "new"}, new.metadata.uid)
    with pytest.raises((Conflict, NotFound)):
        await client.patch(MAPS, "absent", namespace, **patch, **this)
    assert await client.find(MAPS, "absent", namespace) is None


async def test_the_same_holds_for_custom_objects_and_their_status(client: Client, namespace: str) -> None:
    old = await client.create(GAUGES, gauge("a", namespace))
    await client.delete(GAUGES, "a", namespace)
    new = await client.create(GAUGES, gauge("a", namespace))
    then: dict[str, Any] = {"uid": old.metadata.uid, "resource_version": old.metadata.resource_version}
    now: dict[str, Any] = {"uid": new.metadata.uid, "resource_version": new.metadata.resource_version}
    with pytest.raises(Conflict):
        await client.patch(GAUGES, "a", namespace, merge={"spec": {"capacity": 11}}, uid=old.metadata.uid)
    with pytest.raises(Conflict):
        await client.patch(GAUGES, "a", namespace, merge={"status": {"level": 1}}, subresource="status", **then)
    done = await client.patch(GAUGES, "a", namespace, merge={"status": {"level": 1}}, subresource="status", **now)
    assert done.status.level == 1


async def test_apply_creates_and_owns(client: Client, namespace: str) -> None:
    first = await client.patch(GAUGES, "a", namespace, apply={"spec": {"capacity": 5}}, field_manager="one")
    assert first.spec.capacity == 5
    with pytest.raises(Conflict):
        await client.patch(GAUGES, "a", namespace, apply={"spec": {"capacity": 6}}, field_manager="two")
    forced = await client.patch(GAUGES, "a", namespace, apply={"spec": {"capacity": 6}}, field_manager="two", force=True)
    assert forced.spec.capacity == 6


async def test_a_delete_fits_only_the_object_that_it_names(client: Client, namespace: str) -> None:
    made = await client.create(MAPS, config_map("a", namespace))
    changed = await client.patch(MAPS, "a", namespace, merge={"data": {"k": "v"}})
    with pytest.raises(Conflict):
        await client.delete(MAPS, "a", namespace, uid="other")
    with pytest.raises(Conflict):
        await client.delete(MAPS, "a", namespace, resource_version=made.metadata.resource_version)
    await client.delete(
        MAPS,
        "a",
        namespace,
        uid=made.metadata.uid,
        resource_version=changed.metadata.resource_version,
        propagation="Background",
    )
    with pytest.raises(NotFound):
        await client.delete(MAPS, "a", namespace)


async def test_refusals_have_their_classes(client: Client, namespace: str) -> None:
    await client.create(MAPS, config_map("a", namespace))
    with pytest.raises(AlreadyExists):
        await client.create(MAPS, config_map("a", namespace))
    with pytest.raises(NotFound):
        await client.get(OLD_GAUGES, "a", namespace)
    with pytest.raises(Invalid) as caught:
        await client.create(GAUGES, gauge("a", namespace, capacity=0, mode="Odd"))
    assert {cause.field for cause in caught.value.causes} >= {"spec.capacity", "spec.mode"}
    assert all(isinstance(cause, Cause) and cause.reason and cause.message for cause in caught.value.causes)
    with pytest.raises(BadRequest):
        await client.list(MAPS, namespace, labels="a=(")
    with pytest.raises(MethodNotAllowed):
        await client.request("POST", f"/api/v1/namespaces/{namespace}/configmaps/a", body=b"{}")


async def test_others_may_not(client: Client, namespace: str) -> None:
    async with Client(replace(client.config, acting_as=Impersonation("nobody-in-particular"))) as nobody:
        with pytest.raises(Forbidden, match='User "nobody-in-particular" cannot get resource "configmaps"'):
            await nobody.get(MAPS, "a", namespace)
    async with Client(Config(server=client.config.server, insecure=True, token="wrong")) as stranger:
        with pytest.raises(Unauthorized):
            await stranger.get(MAPS, "a", namespace)


async def test_lists_are_whole_however_small_the_pages(client: Client, namespace: str) -> None:
    names = [f"m{number:02}" for number in range(25)]
    await asyncio.gather(*(client.create(MAPS, config_map(name, namespace)) for name in names))
    for limit in (0, 1, 7, 25, 500):
        found = await client.list(MAPS, namespace, fields="metadata.name!=kube-root-ca.crt", limit=limit)
        assert [item.metadata.name for item in found.items] == names
        assert found.resource_version.isdecimal()
    old = await client.list(MAPS, namespace, resource_version=found.resource_version)
    assert set(names) <= {item.metadata.name for item in old.items}
    assert await client.list(MAPS, namespace, labels="no=such") != old


async def test_a_watch_goes_on_where_a_list_ended(client: Client, namespace: str) -> None:
    await client.create(GAUGES, gauge("before", namespace))
    listed = await client.list(GAUGES, namespace)
    made = await client.create(GAUGES, gauge("a", namespace))
    await client.patch(GAUGES, "a", namespace, merge={"spec": {"capacity": 11}})
    await client.delete(GAUGES, "a", namespace)
    told = []
    async with aclosing(client.watch(GAUGES, namespace, resource_version=listed.resource_version, timeout=30)) as watch:
        async for event in watch:
            if event.type != "BOOKMARK":
                told.append((event.type, event.object.metadata.uid, event.object.spec.capacity))
            if len(told) == 3:
                break
    uid = made.metadata.uid
    assert told == [("ADDED", uid, 10), ("MODIFIED", uid, 11), ("DELETED", uid, 11)]


async def test_a_watch_can_begin_with_everything(client: Client, namespace: str) -> None:
    for name in ("a", "b"):
        await client.create(GAUGES, gauge(name, namespace))
    told = []
    async with aclosing(client.watch(GAUGES, namespace, resource_version="", initial_events=True, timeout=30)) as watch:
        async for event in watch:
            told.append((event.type, event.object.metadata.name))
            if event.ends_initial_events:
                break
    assert (sorted(told[:-1]), told[-1]) == ([("ADDED", "a"), ("ADDED", "b")], ("BOOKMARK", ""))
    assert event.resource_version.isdecimal()


async def test_a_watch_ends_quietly_when_its_time_is_over(client: Client, namespace: str) -> None:
    listed = await client.list(GAUGES, namespace)
    watch = client.watch(GAUGES, namespace, resource_version=listed.resource_version, timeout=1)
    assert {event.type async for event in watch} <= {"BOOKMARK"}


async def test_a_version_that_is_forgotten_is_gone(client: Client, api: Api, namespace: str) -> None:
    watch = client.watch(GAUGES, namespace, resource_version="1", timeout=2)  # older than the kind itself
    try:
        events = [event async for event in watch]
    except Gone:
        return
    assert api.plane.embedded, "only the embedded server remembers everything while it is young"
    assert {event.type for event in events} <= {"BOOKMARK"}


async def test_served_follows_the_definitions(client: Client) -> None:
    assert await client.served(MAPS)
    assert await client.served(GAUGES)
    assert not await client.served(OLD_GAUGES)
    assert not await client.served(Kind("nowhere.example.com", "v1", "None", "nones", Object))


async def test_connections_are_shared_by_many_requests(client: Client, namespace: str) -> None:
    made = await asyncio.gather(*(client.create(MAPS, config_map(f"m{number}", namespace)) for number in range(50)))
    found = await asyncio.gather(*(client.get(MAPS, item.metadata.name, namespace) for item in made))
    assert sorted(found, key=lambda item: item.metadata.uid) == sorted(made, key=lambda item: item.metadata.uid)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open sockets are counted in /proc")
async def test_a_client_that_ends_leaves_no_socket_behind(api: Api, namespace: str) -> None:
    before = open_sockets()
    async with Client(Config.load(api.plane.kubeconfig)) as client:
        listed = await client.list(MAPS, namespace)
        await client.create(MAPS, config_map("a", namespace))
        async with aclosing(client.watch(MAPS, namespace, resource_version=listed.resource_version)) as watch:
            assert (await anext(watch)).type == "ADDED"
        assert open_sockets() > before
    assert open_sockets() == before


def open_sockets() -> int:
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += os.readlink(entry).startswith("socket:")
    return found
