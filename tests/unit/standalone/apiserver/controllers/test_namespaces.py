"""The life of a namespace: what it is given, and that nothing outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.standalone.apiserver.controllers.test_crds import establish
from tests.unit.standalone.apiserver.server_kit import Kit, credentials, eventually, quiet, running_kit
from ullage.standalone.apiserver.status import ApiError

Json = dict[str, Any]
MAPS = "configmaps"
ROOT_CA = "kube-root-ca.crt"
POD: Json = {"containers": [{"name": "c", "image": "i"}]}


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with running_kit(tmp_path) as found:
        yield found


def left_in(kit: Kit, namespace: str) -> list[str]:
    return [entry.key[1] for storage in kit.store.storages() for entry in kit.store.items(storage, namespace)]


def trust(kit: Kit, namespace: str) -> Json | None:
    """What the namespace is told of whose certificates to trust."""
    found = kit.get(MAPS, ROOT_CA, namespace=namespace)
    return found["data"] if found else None


def gone(kit: Kit, name: str) -> bool:
    return kit.get("namespaces", name) is None


async def test_every_namespace_gets_its_service_account_and_gets_it_again(kit: Kit) -> None:
    await kit.namespace("n")
    await eventually(lambda: kit.get("serviceaccounts", "default", namespace="n") is not None)
    await kit.delete("serviceaccounts", "default", namespace="n")
    await eventually(lambda: kit.get("serviceaccounts", "default", namespace="n") is not None)


async def test_every_namespace_is_told_whose_certificates_to_trust(kit: Kit) -> None:
    trusted = credentials().authority.certificate.decode()
    await kit.namespace("n")
    everywhere = ("n", "default", "kube-system", "kube-public", "kube-node-lease")
    await eventually(lambda: all(trust(kit, name) == {"ca.crt": trusted} for name in everywhere))
    found = kit.get(MAPS, ROOT_CA, namespace="n")
    assert found is not None
    assert found["metadata"]["annotations"]["kubernetes.io/description"].startswith("Contains a CA bundle")


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda obj: obj["data"].update({"ca.crt": "somebody else's"}), id="another authority"),
        pytest.param(lambda obj: obj["data"].update(more="x"), id="something besides it"),
        pytest.param(lambda obj: obj.pop("data"), id="nothing"),
        pytest.param(lambda obj: obj["metadata"].pop("annotations"), id="without the description"),
    ],
)
async def test_whose_certificates_to_trust_is_put_right_when_somebody_changes_it(
    kit: Kit, spoil: Callable[[Json], object]
) -> None:
    await kit.namespace("n")
    await eventually(lambda: trust(kit, "n") is not None)
    before = kit.get(MAPS, ROOT_CA, namespace="n")
    assert before is not None
    await kit.change(MAPS, ROOT_CA, spoil, namespace="n")

    def mended() -> bool:
        now = kit.get(MAPS, ROOT_CA, namespace="n")
        return now is not None and all(now.get(part) == before.get(part) for part in ("data", "immutable")) and annotated(now)

    def annotated(now: Json) -> bool:
        return bool(now["metadata"].get("annotations") == before["metadata"]["annotations"])

    await eventually(mended)


async def test_whose_certificates_to_trust_comes_back_when_it_is_deleted(kit: Kit) -> None:
    await kit.namespace("n")
    await eventually(lambda: trust(kit, "n") is not None)
    await kit.delete(MAPS, ROOT_CA, namespace="n")
    await eventually(lambda: trust(kit, "n") is not None)


async def test_namespaces_of_an_older_data_directory_are_told_too(tmp_path: Path) -> None:
    async with running_kit(tmp_path, work=False) as kit:
        await kit.namespace("n")
        assert trust(kit, "n") is None
    async with running_kit(tmp_path) as kit:
        await eventually(lambda: trust(kit, "n") is not None)


async def test_everything_in_it_goes_and_then_itself(kit: Kit) -> None:
    await kit.namespace("n")
    await establish(kit)
    for number in range(250):
        await kit.create(MAPS, f"m{number}", namespace="n")
    await kit.create("widgets", "w", namespace="n")
    await kit.delete("namespaces", "n")
    await eventually(lambda: gone(kit, "n"))
    assert left_in(kit, "n") == []


async def test_what_is_held_holds_it_and_it_says_by_what(kit: Kit) -> None:
    await kit.namespace("n")
    await kit.create(MAPS, "x", namespace="n", metadata={"finalizers": ["a.io/b"]})
    await kit.delete("namespaces", "n")
    await quiet(kit.server)
    found = kit.get("namespaces", "n")
    assert found is not None
    told = {one["type"]: one["message"] for one in found["status"]["conditions"] if one["status"] == "True"}
    assert told == {
        "NamespaceContentRemaining": "Some resources are remaining: configmaps has 1 resource instances",
        "NamespaceFinalizersRemaining": "Some content in the namespace has finalizers remaining: "
        "a.io/b in 1 resource instances",
    }
    await kit.change(MAPS, "x", lambda obj: obj["metadata"].pop("finalizers"), namespace="n")
    await eventually(lambda: gone(kit, "n"))


async def test_pods_go_before_anything_else(kit: Kit) -> None:
    """What a pod needs, such as its NetworkPolicies, must outlive it."""
    await kit.namespace("n")
    await kit.create(MAPS, "x", namespace="n")
    await kit.create("pods", "p", namespace="n", metadata={"finalizers": ["a.io/b"]}, spec=POD)
    await kit.delete("namespaces", "n")
    await quiet(kit.server)
    assert kit.get(MAPS, "x", namespace="n") is not None
    pod, found = kit.get("pods", "p", namespace="n"), kit.get("namespaces", "n")
    assert pod is not None
    assert found is not None
    assert pod["metadata"]["deletionTimestamp"]
    told = {one["type"]: one["message"] for one in found["status"]["conditions"] if one["status"] == "True"}
    assert told == {
        "NamespaceContentRemaining": "Some resources are remaining: pods has 1 resource instances",
        "NamespaceFinalizersRemaining": "Some content in the namespace has finalizers remaining: "
        "a.io/b in 1 resource instances",
    }
    await kit.change("pods", "p", lambda obj: obj["metadata"].pop("finalizers"), namespace="n")
    await eventually(lambda: gone(kit, "n"))
    assert left_in(kit, "n") == []


async def test_nothing_new_comes_into_it(kit: Kit) -> None:
    await kit.namespace("n")
    await kit.create(MAPS, "x", namespace="n", metadata={"finalizers": ["a.io/b"]})
    await kit.delete("namespaces", "n")
    with pytest.raises(ApiError, match="because it is being terminated"):
        await kit.create(MAPS, "y", namespace="n")


async def test_nothing_new_comes_into_it_while_its_delete_is_on_its_way_to_the_disk(kit: Kit) -> None:
    """Admission sees what is durable. Without a second look the new object would outlive its namespace."""
    await kit.namespace("n")
    await quiet(kit.server)
    kit.database.gate.clear()
    deleting = asyncio.ensure_future(kit.delete("namespaces", "n"))
    await asyncio.sleep(0)
    with pytest.raises(ApiError, match="because it is being terminated"):
        await kit.create(MAPS, "y", namespace="n")
    kit.database.gate.set()
    await deleting
    await eventually(lambda: gone(kit, "n"))
    assert left_in(kit, "n") == []


@pytest.mark.parametrize("held", [pytest.param(False, id="after it is gone"), pytest.param(True, id="while it is going")])
async def test_a_create_that_thought_for_too_long_is_refused(kit: Kit, held: bool) -> None:
    await kit.namespace("n")
    if held:
        await kit.create(MAPS, "x", namespace="n", metadata={"finalizers": ["a.io/b"]})
    gate = kit.hold_webhooks()
    gate.only = "slow"
    creating = asyncio.ensure_future(kit.create(MAPS, "slow", namespace="n"))
    await eventually(lambda: len(gate.seen) == 1)
    await kit.delete("namespaces", "n")
    if held:
        await quiet(kit.server)
    else:
        await eventually(lambda: gone(kit, "n"))
    gate.open.set()
    with pytest.raises(ApiError) as caught:
        await creating
    assert caught.value.code == (403 if held else 404)
    assert "slow" not in left_in(kit, "n")


async def test_a_delete_that_fails_is_told_and_tried_again(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    await kit.namespace("n")
    await kit.create(MAPS, "x", namespace="n")
    remove, refusals = kit.deleter.remove, 3

    async def stubborn(resource: Any, namespace: str, name: str, **rest: Any) -> Any:
        nonlocal refusals
        if name == "x" and refusals:
            refusals -= 1
            raise ApiError(500, "InternalError", "not now")
        return await remove(resource, namespace, name, **rest)

    monkeypatch.setattr(kit.deleter, "remove", stubborn)
    await kit.delete("namespaces", "n")
    await eventually(lambda: gone(kit, "n"))
    assert refusals == 0


async def test_a_namespace_that_was_going_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with running_kit(tmp_path, work=False) as kit:
        await kit.namespace("n")
        await kit.create(MAPS, "x", namespace="n")
        await kit.delete("namespaces", "n")
        assert not gone(kit, "n")
    async with running_kit(tmp_path) as kit:
        await eventually(lambda: gone(kit, "n"))
        assert left_in(kit, "n") == []


async def test_many_deletes_share_their_commits(kit: Kit) -> None:
    await kit.namespace("n")
    await asyncio.gather(*(kit.create(MAPS, f"m{number}", namespace="n") for number in range(300)))
    await quiet(kit.server)
    kit.database.diary.clear()
    await kit.delete("namespaces", "n")
    await eventually(lambda: gone(kit, "n"))
    assert sum(what == "commit" for what, _ in kit.database.diary) < 30
