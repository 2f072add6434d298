"""The annotation of the first API on a new claim: what becomes of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ullage.kube.review import Decision, GroupVersionKind, GroupVersionResource, Request, Review
from ullage.snapshots.webhook import ANNOTATION, HOOK, answer

GROUP = "volumesnapshot.external-storage.k8s.io"
FIELD = f"metadata.annotations[{ANNOTATION}]"
WANTED = {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "snap"}


def review(annotation: str | None, **spec: Any) -> Review:
    meta: dict[str, Any] = {"name": "copy", "namespace": "team"}
    if annotation is not None:
        meta["annotations"] = {ANNOTATION: annotation, "other": "kept"}
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}} | spec
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": whole}
    request = Request(
        uid="1",
        operation="CREATE",
        kind=GroupVersionKind(version="v1", kind="PersistentVolumeClaim"),
        resource=GroupVersionResource(version="v1", resource="persistentvolumeclaims"),
        namespace="team",
        name="copy",
        object=msgspec.Raw(msgspec.json.encode(body)),
    )
    return Review(request)


async def test_an_annotated_claim_gets_its_data_source() -> None:
    assert await answer(review("snap")) == Decision.allow(
        patch=({"op": "add", "path": "/spec/dataSourceRef", "value": WANTED},)
    )


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(review(None), id="a claim without the annotation"),
        pytest.param(review(None, dataSource={"kind": "PersistentVolumeClaim", "name": "db"}), id="a clone of another claim"),
        pytest.param(review("snap", dataSourceRef=WANTED), id="the same source is there already"),
        pytest.param(review("snap", dataSourceRef=WANTED | {"namespace": "team"}), id="the same, with the claim's namespace"),
    ],
)
async def test_nothing_is_changed(asked: Review) -> None:
    assert await answer(asked) == Decision.allow()


async def test_a_source_where_the_server_would_drop_it_is_put_where_it_stays() -> None:
    found = await answer(review("snap", dataSource=WANTED))
    assert found.patch == ({"op": "add", "path": "/spec/dataSourceRef", "value": WANTED},)


async def test_a_claim_of_a_foreign_class_is_converted_too() -> None:
    found = await answer(review("snap", storageClassName="somebody-elses"))
    assert [step["path"] for step in found.patch] == ["/spec/dataSourceRef"]


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        pytest.param(
            review(""),
            "'' is not the name of a VolumeSnapshot: lower-case letters, digits, '-' and '.', 1 to 253",
            id="an empty name",
        ),
        pytest.param(
            review("../other"),
            "'../other' is not the name of a VolumeSnapshot: lower-case letters, digits, '-' and '.', 1 to 253",
            id="a name that no object can have",
        ),
        pytest.param(
            review("snap\n"),
            r"'snap\n' is not the name of a VolumeSnapshot: lower-case letters, digits, '-' and '.', 1 to 253",
            id="a name with a line break",
        ),
        pytest.param(
            review("a" * 254),
            f"'{'a' * 254}' is not the name of a VolumeSnapshot: lower-case letters, digits, '-' and '.', 1 to 253",
            id="a name that is too long",
        ),
        pytest.param(
            review("snap", dataSourceRef=WANTED | {"name": "other"}),
            f"VolumeSnapshot.{GROUP} snap and spec.dataSourceRef, VolumeSnapshot.{GROUP} other, are two sources; "
            "leave one of them out",
            id="another snapshot",
        ),
        pytest.param(
            review("snap", dataSource=WANTED | {"apiGroup": "snapshot.storage.k8s.io"}),
            f"VolumeSnapshot.{GROUP} snap and spec.dataSource, VolumeSnapshot.snapshot.storage.k8s.io snap, are two sources; "
            "leave one of them out",
            id="a snapshot of that name in the other API",
        ),
        pytest.param(
            review("snap", dataSource={"kind": "PersistentVolumeClaim", "name": "db"}),
            f"VolumeSnapshot.{GROUP} snap and spec.dataSource, PersistentVolumeClaim db, are two sources; "
            "leave one of them out",
            id="a clone of another claim at the same time",
        ),
        pytest.param(
            review("snap", dataSourceRef=WANTED | {"namespace": "other"}),
            f"VolumeSnapshot.{GROUP} snap and spec.dataSourceRef, VolumeSnapshot.{GROUP} other/snap, are two sources; "
            "leave one of them out",
            id="the snapshot of that name in another namespace",
        ),
    ],
)
async def test_what_is_refused(asked: Review, problem: str) -> None:
    found = await answer(asked)
    assert (found.allowed, found.code, found.reason, found.message) == (False, 422, "Invalid", f"{FIELD}: {problem}")
    assert [(cause.field, cause.message) for cause in found.causes] == [(FIELD, problem)]


def test_it_fails_closed_and_only_for_annotated_claims_outside_our_own_namespace() -> None:
    assert HOOK.failure_policy == "Fail"
    assert HOOK.not_in == ("ullage-system",)
    assert list(HOOK.only_if.values()) == [f"has(object.metadata.annotations) && '{ANNOTATION}' in object.metadata.annotations"]
