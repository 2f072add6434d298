"""Who may delete what is held, and the words for everybody else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ullage.engines.api import ENGINE_SNAPSHOTS, VOLUMES
from ullage.engines.holds import Hold, annotations_of
from ullage.engines.webhook.hooks import HOOK
from ullage.kube.kinds import Kind
from ullage.kube.review import GroupVersionKind, GroupVersionResource, Request, Review, UserInfo

PERSON = "ann"
OURS = "system:serviceaccount:ullage-system:controller"
WORLD = "system:serviceaccount:ullage-system:world"
NIGHTLY = Hold(id="1", kind="VolumeSnapshot", namespace="team", name="nightly", kept_by="VolumeSnapshotContent/snapcontent-1")
WEEKLY = Hold(id="2", kind="VolumeSnapshot", namespace="team", name="weekly", kept_by="VolumeSnapshotData/snapdata-2")
PERSONS = {"hold.ullage.io/audit": "until the lawyers are done"}
DELETE_FIRST = "delete the VolumeSnapshot first, and where that leaves its"


def review(kind: Kind[Any], annotations: dict[str, str], user: str) -> Review:
    old = {"metadata": {"name": "it", "namespace": "longhorn-system", "annotations": annotations}}
    request = Request(
        uid="1",
        operation="DELETE",
        kind=GroupVersionKind(group=kind.group, version=kind.version, kind=kind.kind),
        resource=GroupVersionResource(group=kind.group, version=kind.version, resource=kind.plural),
        namespace="longhorn-system",
        name="it",
        user_info=UserInfo(username=user),
        old_object=msgspec.Raw(msgspec.json.encode(old)),
    )
    return Review(request)


@pytest.mark.parametrize(
    ("kind", "annotations", "user", "refusal"),
    [
        pytest.param(ENGINE_SNAPSHOTS, {}, PERSON, "", id="what nobody holds goes"),
        pytest.param(ENGINE_SNAPSHOTS, annotations_of([NIGHTLY]), OURS, "", id="our own worker deletes a held snapshot"),
        pytest.param(
            ENGINE_SNAPSHOTS,
            annotations_of([NIGHTLY]),
            PERSON,
            "snapshot it is held by VolumeSnapshot team/nightly (VolumeSnapshotContent/snapcontent-1), and its data would be "
            f"lost; {DELETE_FIRST} VolumeSnapshotContent (policy Retain), that one too",
            id="a person is told whose it is",
        ),
        pytest.param(
            VOLUMES,
            annotations_of([NIGHTLY, WEEKLY]),
            OURS,
            "volume it is held by VolumeSnapshot team/nightly, VolumeSnapshot team/weekly, and its data would be lost; "
            f"{DELETE_FIRST} VolumeSnapshotContent or VolumeSnapshotData (policy Retain), that one too",
            id="a held volume is nobody's to delete",
        ),
        pytest.param(
            VOLUMES,
            PERSONS,
            WORLD,
            "volume it is held by hold.ullage.io/audit: until the lawyers are done, and its data would be lost; "
            "take the annotation off first: hold.ullage.io/audit",
            id="a person's hold counts as well",
        ),
    ],
)
async def test_what_is_held_is_not_deleted(kind: Kind[Any], annotations: dict[str, str], user: str, refusal: str) -> None:
    found = await HOOK.answer(review(kind, annotations, user))
    assert (found.allowed, found.message) == (not refusal, refusal)
    assert refusal == "" or (found.code, found.reason) == (403, "Forbidden")
