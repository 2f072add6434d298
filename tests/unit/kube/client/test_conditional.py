"""Changes on condition of what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ullage.kube.builtin.core import CLAIMS, ClaimStatus, PersistentVolumeClaim
from ullage.kube.client.conditional import patch_seen, patch_status
from ullage.kube.kinds import Kind, Meta, Object

T = TypeVar("T", bound=Object)
CLAIM = PersistentVolumeClaim(metadata=Meta(name="data", namespace="shop", uid="1", resource_version="7"))


class Recorded:
    """A client that answers with what was seen."""

    def __init__(self) -> None:
        self.patches: list[tuple[object, ...]] = []

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
