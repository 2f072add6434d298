"""Owner references: what goes with its owner, what stays, and what neither a restart nor a race may change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.standalone.apiserver.server_kit import Kit, eventually, quiet, running_kit
from ullage.standalone.apiserver.controllers.garbage_collector import _decoder
from ullage.standalone.apiserver.handlers.deletes import FOREGROUND, ORPHAN

Json = dict[str, Any]
MAPS = "configmaps"
NOBODY = "11111111-1111-1111-1111-111111111111"


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with running_kit(tmp_path) as found:
        yield found


def owned_by(*owners: Json, block: bool | None = None, **meta: Any) -> Json:
    """Metadata with references to the owners."""
    references = []
    for owner in owners:
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
        reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        references.append(reference | ({} if block is None else {"blockOwnerDeletion": block}))
    return {"ownerReferences": references, **meta}


def ghost(kind: str = "ConfigMap", *, api: str = "v1", uid: str = NOBODY, name: str = "ghost") -> Json:
    """An owner that is not there."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "uid": uid}}


async def make(kit: Kit, name: str, *owners: Json, **rest: Any) -> Json:
    return await kit.create(MAPS, name, namespace=rest.pop("namespace", "default"), metadata=owned_by(*owners, **rest))


def alive(kit: Kit, *names: str) -> list[str]:
    return [name for name in names if kit.get(MAPS, name, namespace="default") is not None]


def meta(kit: Kit, name: str) -> Json:
    found = kit.get(MAPS, name, namespace="default")
    assert found is not None
    return dict(found["metadata"])


class TestBackground:
    async def test_dependents_go_with_their_owner_down_to_the_last(self, kit: Kit) -> None:
        a = await make(kit, "a")
        b = await make(kit, "b", a)
        await make(kit, "c", b)
        await kit.delete(MAPS, "a", namespace="default", policy="Background")
        await eventually(lambda: alive(kit, "a", "b", "c") == [])

    async def test_one_of_two_owners_is_enough_to_stay_and_the_other_is_taken_off(self, kit: Kit) -> None:
        a, b = await make(kit, "a"), await make(kit, "b")
        await make(kit, "c", a, b)
        await kit.delete(MAPS, "a", namespace="default", policy="Background")
        await eventually(lambda: [ref["name"] for ref in meta(kit, "c")["ownerReferences"]] == ["b"])

    async def test_an_owner_made_again_under_its_name_owns_nothing(self, kit: Kit) -> None:
        a = await make(kit, "a")
        await make(kit, "b", a)
        await kit.delete(MAPS, "a", namespace="default", policy="Background")
        await make(kit, "a")
        await eventually(lambda: alive(kit, "a", "b") == ["a"])

    @pytest.mark.parametrize(
        ("owner", "stays"),
        [
            pytest.param(ghost(), False, id="an owner that never was"),
            pytest.param(ghost("Widget", api="example.com/v1"), True, id="an owner of a kind that is not served"),
            pytest.param(ghost("ConfigMap", api="v9"), True, id="an owner in a version that is not served"),
        ],
    )
    async def test_nothing_is_deleted_on_a_guess(self, kit: Kit, owner: Json, stays: bool) -> None:
        await make(kit, "x", owner)
        await quiet(kit.server)
        assert alive(kit, "x") == (["x"] if stays else [])

    async def test_a_reference_with_another_name_leads_nowhere(self, kit: Kit) -> None:
        a = await make(kit, "a")
        await make(kit, "x", ghost(uid=a["metadata"]["uid"], name="other"))
        await eventually(lambda: alive(kit, "a", "x") == ["a"])

    async def test_an_owner_in_another_namespace_is_none(self, kit: Kit) -> None:
        await kit.namespace("other")
        a = await make(kit, "a", namespace="other")
        await make(kit, "x", a)
        await eventually(lambda: alive(kit, "x") == [])

    async def test_a_cluster_wide_object_never_goes_with_something_in_a_namespace(self, kit: Kit) -> None:
        a = await make(kit, "a")
        await kit.create("clusterroles", "r1", metadata=owned_by(a))
        await kit.create("clusterroles", "r2", metadata=owned_by(ghost()))
        await kit.delete(MAPS, "a", namespace="default", policy="Background")
        await quiet(kit.server)
        assert kit.get("clusterroles", "r1") is not None
        assert kit.get("clusterroles", "r2") is not None

    async def test_owners_that_own_each_other_stay(self, kit: Kit) -> None:
        a = await make(kit, "a")
        b = await make(kit, "b", a)
        await kit.change(MAPS, "a", lambda obj: obj["metadata"].update(owned_by(b)), namespace="default")
        await quiet(kit.server)
        assert alive(kit, "a", "b") == ["a", "b"]

    async def test_an_object_that_found_an_owner_while_it_was_judged_stays(self, kit: Kit) -> None:
        a, b = await make(kit, "a"), await make(kit, "b")
        await make(kit, "x", b)
        gate = kit.hold_webhooks()
        gate.only = "x"
        await kit.delete(MAPS, "b", namespace="default", policy="Background")
        await eventually(lambda: gate.seen == ["x"])  # the collector's delete is with the webhooks
        gate.only = "nothing"
        await kit.change(MAPS, "x", lambda obj: obj["metadata"].update(owned_by(a)), namespace="default")
        gate.open.set()
        await quiet(kit.server)
        assert alive(kit, "x") == ["x"]

    async def test_an_owner_that_went_with_its_kind_is_still_known_to_be_gone(self, kit: Kit) -> None:
        """The last object and its definition go in one moment: the kind is unknown when the dependent is looked at."""
        garbage = kit.server.controllers[1]
        a = await make(kit, "a")
        await make(kit, "x", a)
        kit.server.registry.remove("", MAPS)
        entry = kit.store.head(MAPS, "default", "a")
        assert entry is not None
        await kit.store.stage_delete(MAPS, entry.obj(), expect=entry.rv)
        found = kit.store.get(MAPS, "default", "x")
        assert found is not None
        reference = (_decoder.decode(found.data).metadata.ownerReferences or [])[0]
        assert garbage._is_dangling(reference, found)

    async def test_an_object_s_own_finalizer_says_what_becomes_of_its_dependents(self, kit: Kit) -> None:
        a = await make(kit, "a")
        b = await make(kit, "b", a, finalizers=[ORPHAN])
        await make(kit, "c", b)
        await kit.delete(MAPS, "a", namespace="default", policy="Background")
        await eventually(lambda: alive(kit, "a", "b", "c") == ["c"] and "ownerReferences" not in meta(kit, "c"))


class TestForeground:
    async def test_an_owner_waits_for_what_blocks_it(self, kit: Kit) -> None:
        a = await make(kit, "a")
        await make(kit, "b", a, block=True, finalizers=["a.io/b"])
        await make(kit, "c", a)
        assert await kit.delete(MAPS, "a", namespace="default", policy="Foreground") is False
        await eventually(lambda: alive(kit, "a", "b", "c") == ["a", "b"])
        await quiet(kit.server)
        assert meta(kit, "a")["finalizers"] == [FOREGROUND]
        await kit.change(MAPS, "b", lambda obj: obj["metadata"].pop("finalizers"), namespace="default")
        await eventually(lambda: alive(kit, "a", "b", "c") == [])

    @pytest.mark.parametrize(
        "let_go",
        [
            pytest.param(lambda obj: obj["metadata"].pop("ownerReferences"), id="by dropping the reference"),
            pytest.param(
                lambda obj: obj["metadata"]["ownerReferences"][0].update(blockOwnerDeletion=False), id="by not blocking it"
            ),
        ],
    )
    async def test_a_dependent_can_let_its_owner_go(self, kit: Kit, let_go: Any) -> None:
        a = await make(kit, "a")
        await make(kit, "b", a, block=True, finalizers=["a.io/b"])
        await kit.delete(MAPS, "a", namespace="default", policy="Foreground")
        await quiet(kit.server)
        await kit.change(MAPS, "b", let_go, namespace="default")
        await eventually(lambda: alive(kit, "a", "b") == ["b"])

    async def test_it_goes_down_the_tree(self, kit: Kit) -> None:
        a = await make(kit, "a")
        b = await make(kit, "b", a, block=True)
        await make(kit, "c", b, block=True, finalizers=["a.io/b"])
        await kit.delete(MAPS, "a", namespace="default", policy="Foreground")
        await eventually(lambda: "deletionTimestamp" in meta(kit, "c"))
        await quiet(kit.server)
        assert meta(kit, "b")["finalizers"] == meta(kit, "a")["finalizers"] == [FOREGROUND]
        await kit.change(MAPS, "c", lambda obj: obj["metadata"].pop("finalizers"), namespace="default")
        await eventually(lambda: alive(kit, "a", "b", "c") == [])

    async def test_a_circle_ends(self, kit: Kit) -> None:
        a = await make(kit, "a")
        b = await make(kit, "b", a, block=True)
        await kit.change(MAPS, "a", lambda obj: obj["metadata"].update(owned_by(b, block=True)), namespace="default")
        await kit.delete(MAPS, "a", namespace="default", policy="Foreground")
        await eventually(lambda: alive(kit, "a", "b") == [])

    async def test_somebody_in_another_namespace_cannot_block_it(self, kit: Kit) -> None:
        await kit.namespace("other")
        a = await make(kit, "a")
        await make(kit, "x", a, namespace="other", block=True, finalizers=["a.io/b"])
        await kit.delete(MAPS, "a", namespace="default", policy="Foreground")
        await eventually(lambda: alive(kit, "a") == [])


class TestOrphans:
    async def test_dependents_are_let_go(self, kit: Kit) -> None:
        a = await make(kit, "a")
        await make(kit, "b", a)
        await kit.delete(MAPS, "a", namespace="default", policy="Orphan")
        await eventually(lambda: alive(kit, "a", "b") == ["b"])
        assert "ownerReferences" not in meta(kit, "b")


class TestRestart:
    """What was under way when the server stopped is taken up again."""

    async def test_dependents_whose_owner_went_just_before(self, tmp_path: Path) -> None:
        async with running_kit(tmp_path, work=False) as kit:
            a = await make(kit, "a")
            await make(kit, "b", a)
            await kit.delete(MAPS, "a", namespace="default", policy="Background")
        async with running_kit(tmp_path) as kit:
            await eventually(lambda: alive(kit, "b") == [])

    @pytest.mark.parametrize(("policy", "left"), [("Orphan", ["b"]), ("Foreground", [])])
    async def test_an_owner_on_its_way(self, tmp_path: Path, policy: str, left: list[str]) -> None:
        async with running_kit(tmp_path, work=False) as kit:
            a = await make(kit, "a")
            await make(kit, "b", a, block=True)
            await make(kit, "lonely")
            await kit.delete(MAPS, "a", namespace="default", policy=policy)
            await kit.delete(MAPS, "lonely", namespace="default", policy=policy)
        async with running_kit(tmp_path) as kit:
            await eventually(lambda: alive(kit, "a", "b", "lonely") == left)


async def test_the_graph_forgets_what_is_gone(kit: Kit) -> None:
    garbage = kit.server.controllers[1]
    await quiet(kit.server)  # what every namespace is given is there
    before = (len(garbage._places), len(garbage._dependents), len(garbage._owners), len(garbage._waiting))
    a = await make(kit, "a")
    await make(kit, "b", a, a, block=True)
    await kit.delete(MAPS, "a", namespace="default", policy="Foreground")
    await eventually(lambda: alive(kit, "a", "b") == [])
    after = (len(garbage._places), len(garbage._dependents), len(garbage._owners), len(garbage._waiting))
    assert after == before
