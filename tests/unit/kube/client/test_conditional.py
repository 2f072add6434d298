"""Changes on condition of what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ullage.kube.builtin.core import CLAIMS, ClaimStatus, PersistentVolumeClaim
from ullage.kube.client.conditional import hold, let_go, patch_seen, patch_status
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind, Meta, Object

T = TypeVar("T", bound=Object)
CLAIM = PersistentVolumeClaim(metadata=Meta(name="data", namespace="shop", uid="1", resource_version="7"))


class Recorded:
    """A client that answers with what was seen."""

    def __init__(self) -> None:
        self.patches: list[tuple[object, ...]] = []
        self.gone = False

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        subresource: str = "",
        uid: str = "",
        resource_version: str = "",
    ) -> T:
        if self.gone:
            raise NotFound("it is gone", code=404)
        self.patches.append((kind.name, namespace, name, merge, subresource, uid, resource_version))
        return kind.type()


async def test_a_patch_names_the_uid_and_the_version_that_were_seen() -> None:
    client = Recorded()
    await patch_seen(client, CLAIMS, CLAIM, {"spec": {}})
    assert client.patches == [("persistentvolumeclaims", "shop", "data", {"spec": {}}, "", "1", "7")]


async def test_of_a_status_only_what_differs_is_written() -> None:
    client = Recorded()
    old, new = (
        ClaimStatus(phase="Pending", capacity={"storage": "1Gi"}),
        ClaimStatus(phase="Bound", capacity={"storage": "1Gi"}),
    )
    assert await patch_status(client, CLAIMS, CLAIM, old=old, new=new) is not None
    assert client.patches == [("persistentvolumeclaims", "shop", "data", {"status": {"phase": "Bound"}}, "status", "1", "7")]


async def test_a_status_that_says_nothing_new_is_not_written() -> None:
    client = Recorded()
    assert await patch_status(client, CLAIMS, CLAIM, old=ClaimStatus(phase="Bound"), new=ClaimStatus(phase="Bound")) is None
    assert client.patches == []


HELD = PersistentVolumeClaim(metadata=Meta(name="data", namespace="shop", uid="1", resource_version="7", finalizers=("a", "b")))


async def test_a_finalizer_is_set_and_taken_off_beside_those_of_others() -> None:
    client = Recorded()
    await hold(client, CLAIMS, HELD, "c")
    await let_go(client, CLAIMS, HELD, "a")
    assert [merge for _, _, _, merge, *_ in client.patches] == [
        {"metadata": {"finalizers": ["a", "b", "c"]}},
        {"metadata": {"finalizers": ["b"]}},
    ]
    assert {(uid, version) for *_, uid, version in client.patches} == {("1", "7")}


async def test_a_finalizer_that_is_as_it_should_be_costs_no_write() -> None:
    client = Recorded()
    assert await hold(client, CLAIMS, HELD, "a") is HELD
    await let_go(client, CLAIMS, HELD, "c")
    assert client.patches == []


async def test_what_is_gone_need_not_be_let_go() -> None:
    client = Recorded()
    client.gone = True
    await let_go(client, CLAIMS, HELD, "a")
