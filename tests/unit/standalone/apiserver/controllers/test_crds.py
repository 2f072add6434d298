"""CustomResourceDefinitions: when they are served, which names they may have, and how they and their objects end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.unit.standalone.apiserver.server_kit import Kit, eventually, quiet, request, running_kit
from ullage.standalone.apiserver.controllers import crds
from ullage.standalone.apiserver.controllers.crds import STORAGE
from ullage.standalone.apiserver.crd.names import resources_of
from ullage.standalone.apiserver.status import ApiError

Json = dict[str, Any]
CRDS = "customresourcedefinitions"
SCHEMA: Json = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}, "status": {"type": "object"}}}}


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with running_kit(tmp_path) as found:
        yield found


def version(name: str = "v1", *, served: bool = True, storage: bool = True) -> Json:
    return {"name": name, "served": served, "storage": storage, "schema": deepcopy(SCHEMA)}


def definition(plural: str = "widgets", kind: str = "Widget", *, short: tuple[str, ...] = (), **spec: Any) -> Json:
    names: Json = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    if short:
        names["shortNames"] = list(short)
    return {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version()], **spec}


async def define(kit: Kit, spec: Json) -> str:
    name = f"{spec['names']['plural']}.{spec['group']}"
    await kit.create(CRDS, name, spec=spec)
    return name


def condition(kit: Kit, name: str, kind: str) -> str:
    found = kit.get(CRDS, name)
    conditions = ((found or {}).get("status") or {}).get("conditions") or ()
    return next((str(one["status"]) for one in conditions if one["type"] == kind), "")


async def establish(kit: Kit, spec: Json | None = None) -> str:
    name = await define(kit, spec or definition())
    await eventually(lambda: condition(kit, name, "Established") == "True")
    return name


def served(kit: Kit, plural: str = "widgets") -> list[str]:
    return [resource.version for resource in kit.server.registry.versions("example.com", plural)]


class TestServing:
    async def test_a_definition_is_served_as_soon_as_it_says_so(self, kit: Kit) -> None:
        name = await define(kit, definition())
        assert served(kit) == []
        await eventually(lambda: condition(kit, name, "Established") == "True")
        assert served(kit) == ["v1"]
        await kit.create("widgets", "x", namespace="default")

    async def test_custom_kinds_are_served_from_the_first_moment_after_a_restart(self, tmp_path: Path) -> None:
        async with running_kit(tmp_path) as kit:
            await establish(kit)
            await kit.create("widgets", "x", namespace="default")
        async with running_kit(tmp_path, work=False) as kit:
            assert served(kit) == ["v1"]
            assert kit.get("widgets", "x", namespace="default") is not None

    async def test_a_definition_that_cannot_be_served_keeps_nobody_else_from_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with running_kit(tmp_path) as kit:
            await establish(kit)
            await establish(kit, definition("broken", "Broken"))

        made = resources_of

        def fragile(crd: Json) -> Any:
            if crd["spec"]["names"]["kind"] == "Broken":
                raise ValueError("no such schema")
            return made(crd)

        monkeypatch.setattr(crds, "resources_of", fragile)
        async with running_kit(tmp_path) as kit:
            assert (served(kit), served(kit, "broken")) == (["v1"], [])
            await kit.create("widgets", "x", namespace="default")

    async def test_a_new_version_is_served_and_remembered_as_stored(self, kit: Kit) -> None:
        name = await establish(kit)

        def add(crd: Json) -> None:
            crd["spec"]["versions"] = [version("v1", storage=False), version("v2")]

        await kit.change(CRDS, name, add)
        assert served(kit) == ["v1", "v2"]
        await quiet(kit.server)
        found = kit.get(CRDS, name)
        assert found is not None
        assert found["status"]["storedVersions"] == ["v1", "v2"]

    async def test_a_status_that_was_worked_out_before_a_change_of_the_spec_does_not_undo_it(self, kit: Kit) -> None:
        """The controller reads, the spec changes on its way to the disk, the controller writes."""
        name = "widgets.example.com"
        await quiet(kit.server)
        kit.database.gate.clear()
        kit.database.diary.clear()
        creating = asyncio.ensure_future(kit.create(CRDS, name, spec=definition()))
        await eventually(lambda: bool(kit.database.diary))

        def add(crd: Json) -> None:
            crd["spec"]["versions"] = [version("v1", storage=False), version("v2")]

        changing = asyncio.ensure_future(kit.change(CRDS, name, add))
        await asyncio.sleep(0)
        newest = [entry.rv for entry in kit.store.staged(STORAGE)]
        kit.database.gate.set()  # the create gets through, the change does not
        kit.database.gate.clear()
        await eventually(lambda: [entry.rv for entry in kit.store.staged(STORAGE)] > newest)  # the controller has written
        kit.database.gate.set()
        await asyncio.gather(creating, changing)
        await quiet(kit.server)
        found = kit.get(CRDS, name)
        assert found is not None
        assert found["status"]["storedVersions"] == ["v1", "v2"]
        assert served(kit) == ["v1", "v2"]


class TestNames:
    async def test_a_name_that_is_taken_is_not_given_twice(self, kit: Kit) -> None:
        await establish(kit)
        other = await define(kit, definition("gadgets", "Widget"))
        await eventually(lambda: condition(kit, other, "NamesAccepted") == "False")
        assert served(kit, "gadgets") == []

    async def test_a_name_that_came_free_with_its_holder_is_given_to_who_waits(self, kit: Kit) -> None:
        first = await establish(kit)
        second = await define(kit, definition("gadgets", "Widget"))
        await quiet(kit.server)
        await kit.delete(CRDS, first)
        await eventually(lambda: condition(kit, second, "Established") == "True")
        assert served(kit, "gadgets") == ["v1"]

    async def test_a_name_that_its_holder_gave_up_is_given_to_who_waits(self, kit: Kit) -> None:
        first = await establish(kit, definition(short=("wd",)))
        second = await define(kit, definition("gadgets", "Gadget", short=("wd",)))
        await quiet(kit.server)
        assert condition(kit, second, "NamesAccepted") == "False"
        await kit.change(CRDS, first, lambda crd: crd["spec"]["names"].pop("shortNames"))
        await eventually(lambda: condition(kit, second, "NamesAccepted") == "True")

    async def test_another_group_may_use_the_same_names(self, kit: Kit) -> None:
        await establish(kit)
        other = await establish(kit, definition() | {"group": "other.example.com"})
        assert condition(kit, other, "NamesAccepted") == "True"


class TestEnd:
    async def test_objects_go_with_their_definition(self, kit: Kit) -> None:
        name = await establish(kit)
        for number in range(150):
            await kit.create("widgets", f"x{number}", namespace="default")
        assert await kit.delete(CRDS, name) is False
        await eventually(lambda: kit.get(CRDS, name) is None)
        assert (kit.store.count(name), served(kit)) == (0, [])

    async def test_nothing_of_it_is_left_in_memory(self, kit: Kit) -> None:
        """Else every kind that ever was would keep its last events."""
        name = await establish(kit)
        await kit.create("widgets", "x", namespace="default", spec={"size": 7})
        assert kit.store._caches.all[name].weight > 0
        await kit.delete(CRDS, name)
        await eventually(lambda: kit.get(CRDS, name) is None)
        await quiet(kit.server)
        assert name not in kit.store._caches.all
        assert kit.store.recent == sum(cache.weight for cache in kit.store._caches.all.values())

    async def test_objects_of_a_version_that_is_not_served_go_as_well(self, kit: Kit) -> None:
        """Else they would be there again when the definition comes back."""
        name = await establish(kit)
        await kit.create("widgets", "x", namespace="default")
        await kit.change(CRDS, name, lambda crd: crd["spec"]["versions"][0].update(served=False))
        assert served(kit) == []
        await kit.delete(CRDS, name)
        await eventually(lambda: kit.get(CRDS, name) is None)
        assert kit.store.count(name) == 0

    async def test_held_objects_hold_it_and_new_ones_are_refused(self, kit: Kit) -> None:
        name = await establish(kit)
        await kit.create("widgets", "x", namespace="default", metadata={"finalizers": ["a.io/b"]})
        await kit.delete(CRDS, name)
        await quiet(kit.server)
        with pytest.raises(ApiError) as caught:
            await kit.create("widgets", "y", namespace="default")
        assert (caught.value.code, caught.value.message) == (
            403,
            'widgets.example.com "y" is forbidden: create not allowed while custom resource definition is terminating',
        )
        await kit.change("widgets", "x", lambda obj: obj["metadata"].pop("finalizers"), namespace="default")
        await eventually(lambda: kit.get(CRDS, name) is None)

    async def test_a_create_that_thought_for_too_long_is_refused(self, kit: Kit) -> None:
        name = await establish(kit)
        gate = kit.hold_webhooks()
        gate.only = "slow"
        creating = asyncio.ensure_future(kit.create("widgets", "slow", namespace="default"))
        await eventually(lambda: len(gate.seen) == 1)
        await kit.delete(CRDS, name)
        await eventually(lambda: kit.get(CRDS, name) is None)
        gate.open.set()
        with pytest.raises(ApiError, match="is terminating"):
            await creating
        assert kit.store.count(name) == 0

    async def test_an_object_that_slipped_in_behind_the_delete_goes_too(self, kit: Kit) -> None:
        name = await establish(kit)
        await quiet(kit.server)
        kit.database.gate.clear()
        kit.database.diary.clear()
        deleting = asyncio.ensure_future(kit.delete(CRDS, name))
        await eventually(lambda: bool(kit.database.diary))
        creating = asyncio.ensure_future(kit.create("widgets", "x", namespace="default"))
        await asyncio.sleep(0)
        kit.database.gate.set()
        await asyncio.gather(deleting, creating)
        await eventually(lambda: kit.get(CRDS, name) is None)
        assert kit.store.count(name) == 0

    async def test_it_can_come_again_under_its_name(self, kit: Kit) -> None:
        name = await establish(kit)
        await kit.create("widgets", "x", namespace="default")
        await kit.delete(CRDS, name)
        await eventually(lambda: kit.get(CRDS, name) is None)
        await establish(kit)
        assert kit.store.count(name) == 0
        await kit.create("widgets", "x", namespace="default")

    async def test_an_end_that_was_cut_short_goes_on_after_a_restart(self, tmp_path: Path) -> None:
        async with running_kit(tmp_path) as kit:
            name = await establish(kit)
            await kit.create("widgets", "x", namespace="default", metadata={"finalizers": ["a.io/b"]})
            await kit.delete(CRDS, name)
            await quiet(kit.server)
        async with running_kit(tmp_path) as kit:
            assert served(kit) == ["v1"]
            with pytest.raises(ApiError, match="is terminating"):
                await kit.create("widgets", "y", namespace="default")
            await kit.change("widgets", "x", lambda obj: obj["metadata"].pop("finalizers"), namespace="default")
            await eventually(lambda: kit.get(CRDS, name) is None)


class TestWatches:
    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda kit, name: kit.delete(CRDS, name), id="with its kind"),
            pytest.param(
                lambda kit, name: kit.change(CRDS, name, lambda crd: crd["spec"]["versions"][0].update(served=False)),
                id="when its version is no longer served",
            ),
        ],
    )
    async def test_a_watch_ends_at_once(self, kit: Kit, change: Callable[[Kit, str], Any]) -> None:
        name = await establish(kit)
        stream = kit.server.watcher.watch(request("GET", "/apis/example.com/v1/widgets?watch=1"), kit.resource("widgets"))
        reading = asyncio.ensure_future(_all(stream.chunks))
        await eventually(lambda: bool(kit.store._caches.of(name).waiters))
        await change(kit, name)
        assert await asyncio.wait_for(reading, 5) == b""

    async def test_a_watch_that_slept_through_the_end_of_its_kind_does_not_go_on_in_the_next_of_that_name(
        self, kit: Kit
    ) -> None:
        name = await establish(kit)
        await kit.create("widgets", "x", namespace="default")
        stream = kit.server.watcher.watch(request("GET", "/apis/example.com/v1/widgets?watch=1"), kit.resource("widgets"))
        chunks = aiter(stream.chunks)
        assert b'"name":"x"' in await anext(chunks)  # and then its client takes nothing
        await kit.delete(CRDS, name)
        await eventually(lambda: kit.get(CRDS, name) is None)
        await establish(kit)
        await kit.create("widgets", "y", namespace="default")
        assert await asyncio.wait_for(_all(chunks), 5) == b""

    async def test_a_watch_outlives_a_change_of_the_schema_and_shows_the_new_fields(self, kit: Kit) -> None:
        spec = definition(versions=[version("v1", storage=False), version("v2")])
        name = await establish(kit, spec)
        v1 = kit.server.registry.find("example.com", "v1", "widgets")
        assert v1 is not None
        stream = kit.server.watcher.watch(request("GET", "/apis/example.com/v1/widgets?watch=1"), v1)
        chunks = aiter(stream.chunks)
        reading = asyncio.ensure_future(anext(chunks))
        await eventually(lambda: bool(kit.store._caches.of(name).waiters))

        def grow(crd: Json) -> None:
            for one in crd["spec"]["versions"]:
                one["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = {"size": {"type": "integer"}}

        await kit.change(CRDS, name, grow)
        await kit.create("widgets", "x", namespace="default", spec={"size": 7})
        chunk = await asyncio.wait_for(reading, 5)
        assert b'"apiVersion":"example.com/v1"' in chunk
        assert b'"size":7' in chunk


async def _all(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


RBAC = "rbac.authorization.k8s.io"
APPROVED = {"annotations": {"api-approved.kubernetes.io": "unapproved, a test"}}


def taken(plural: str, group: str, **spec: Any) -> Json:
    """A definition with the name of something that the server has of its own."""
    return definition(plural, "Thing", group=group, scope="Cluster", **spec)


class TestBuiltinNames:
    @pytest.mark.parametrize(
        ("plural", "group", "served_version"),
        [
            pytest.param("clusterroles", RBAC, "v1", id="a kind that is served"),
            pytest.param("clusterroles", RBAC, "v7", id="a kind that is served, in another version"),
            pytest.param("tokenreviews", "authentication.k8s.io", "v7", id="a kind that is never stored"),
            pytest.param("events", "events.k8s.io", "v7", id="a kind that is stored elsewhere"),
            pytest.param("customresourcedefinitions", "apiextensions.k8s.io", "v7", id="definitions themselves"),
        ],
    )
    async def test_the_name_of_a_built_in_kind_is_refused(self, kit: Kit, plural: str, group: str, served_version: str) -> None:
        spec = taken(plural, group, versions=[version(served_version)])
        with pytest.raises(ApiError) as refused:
            await kit.create(CRDS, f"{plural}.{group}", spec=spec, metadata=APPROVED)
        assert (refused.value.code, refused.value.reason) == (422, "Invalid")
        assert f'spec.names.plural: Invalid value: "{plural}": is a kind of the API server itself' in refused.value.message

    async def test_a_group_of_the_server_gets_no_further_kinds(self, kit: Kit) -> None:
        name = f"things.{RBAC}"
        await kit.create(CRDS, name, spec=taken("things", RBAC, versions=[version("v7")]), metadata=APPROVED)
        await eventually(lambda: condition(kit, name, "Established") == "True")
        assert kit.server.registry.versions(RBAC, "things") == []

    @pytest.mark.parametrize("going", [pytest.param(False, id="as it was"), pytest.param(True, id="that was being deleted")])
    async def test_a_definition_from_before_harms_nothing(self, tmp_path: Path, going: bool) -> None:
        """A release that took such names has left one in the data directory. It loads; it is not served; it can go."""
        name = f"clusterroles.{RBAC}"
        async with running_kit(tmp_path) as kit:
            await kit.store.stage(STORAGE, leftover(name, going=going), expect=0)
        async with running_kit(tmp_path) as kit:
            roles = {entry.key[1] for entry in kit.store.items(name)}
            assert "cluster-admin" in roles
            assert [one.kind for one in kit.server.registry.versions(RBAC, "clusterroles")] == ["ClusterRole"]
            await kit.create("clusterroles", "mine", rules=[])
            if not going:
                await kit.delete(CRDS, name)
            await eventually(lambda: kit.get(CRDS, name) is None)
            await quiet(kit.server)
            assert {entry.key[1] for entry in kit.store.items(name)} == {*roles, "mine"}
            assert kit.server.registry.find(RBAC, "v1", "clusterroles") is not None
            await kit.create("clusterroles", "later", rules=[])

    async def test_a_status_cannot_move_the_storage_of_a_definition(self, kit: Kit) -> None:
        """Whoever may write a definition's status says which names were accepted, and not where objects lie."""
        crd = {"metadata": {"name": "widgets.example.com"}, "spec": definition()}
        for names in ({"plural": "gadgets", "kind": "Widget"}, {"plural": "", "kind": "Widget"}):
            (resource,) = resources_of({**crd, "status": {"acceptedNames": names}})
            assert (resource.plural, resource.storage) == ("widgets", "widgets.example.com")

    async def test_a_custom_kind_replaces_and_removes_none_of_the_servers(self, kit: Kit) -> None:
        registry, (custom,) = kit.server.registry, resources_of(custom_secrets())
        with pytest.raises(ValueError, match="is a kind of the API server itself"):
            registry.add(custom)
        registry.remove(RBAC, "roles")
        assert registry.find(RBAC, "v1", "roles") is not None


def custom_secrets() -> Json:
    """A definition that cannot exist, and would be in the place of the Secrets."""
    spec = definition("secrets", "Secret", group="", scope="Namespaced")
    return {"metadata": {"name": "secrets.none.example.com"}, "spec": spec}


def leftover(name: str, *, going: bool) -> Json:
    meta: Json = {"name": name, "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", **APPROVED}
    if going:
        meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["customresourcecleanup.apiextensions.k8s.io"]}
    conditions = [{"type": kind, "status": "True"} for kind in ("NamesAccepted", "Established")]
    names = {"plural": "clusterroles", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    status = {"conditions": conditions, "acceptedNames": names, "storedVersions": ["v1"]}
    spec = taken("clusterroles", RBAC)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": spec,
        "status": status,
    }
