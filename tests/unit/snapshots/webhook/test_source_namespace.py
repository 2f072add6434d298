"""A data source with a namespace, which most API servers drop without a word."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.snapshots.webhook.test_hooks import review
from ullage.kube.review import Decision, Review
from ullage.snapshots.webhook import HOOKS, NAMESPACE_FIELD, NOTE, check, keep, make_hooks

SOURCE = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
PROBLEM = (
    "the claim is to be filled from VolumeSnapshot other/snap, and this API server drops sources of other namespaces: "
    "it would be empty. Only a snapshot in the claim's own namespace, team, can be restored"
)


@pytest.mark.parametrize(
    ("asked", "patch"),
    [
        pytest.param(
            review(None, dataSourceRef=SOURCE | {"namespace": "team"}),
            [{"op": "remove", "path": "/spec/dataSourceRef/namespace"}],
            id="the claim's own namespace says nothing, and goes",
        ),
        pytest.param(
            review(None, dataSourceRef=SOURCE | {"namespace": "other"}),
            [{"op": "add", "path": "/metadata/annotations", "value": {NOTE: "other/snap"}}],
            id="another one is noted before it is dropped",
        ),
        pytest.param(review(None, dataSourceRef=SOURCE), [], id="none is nothing to see to"),
        pytest.param(review(None), [], id="no source at all"),
    ],
)
async def test_what_is_done_before_the_server_drops_it(asked: Review, patch: list[dict[str, Any]]) -> None:
    assert await keep(asked) == Decision.allow(patch=tuple(patch))


def noted(**spec: Any) -> Review:
    asked = review(None, **spec)
    body = asked.object_json()
    body["metadata"]["annotations"] = {NOTE: "other/snap"}
    return review_of(asked, body)


def review_of(asked: Review, body: dict[str, Any]) -> Review:
    import msgspec

    return Review(msgspec.structs.replace(asked.request, object=msgspec.Raw(msgspec.json.encode(body))))


async def test_a_claim_that_has_lost_its_source_is_refused() -> None:
    found = await check(noted())
    assert (found.allowed, found.code, found.message) == (False, 422, f"{NAMESPACE_FIELD}: {PROBLEM}")
    assert [(cause.field, cause.message) for cause in found.causes] == [(NAMESPACE_FIELD, PROBLEM)]


async def test_where_the_server_keeps_it_the_claim_is_admitted() -> None:
    assert (await check(noted(dataSourceRef=SOURCE | {"namespace": "other"}))).allowed
    assert (await check(review(None))).allowed


def test_both_fail_closed_and_only_for_such_claims() -> None:
    assert [one.name for one in make_hooks(None)] == ["restore-annotation", "restore-namespace", "restore-source"]  # type: ignore[arg-type]
    assert [(one.phase, one.failure_policy, one.not_in) for one in HOOKS] == [
        ("mutate", "Fail", ("ullage-system",)),
        ("validate", "Fail", ("ullage-system",)),
    ]
    assert all(one.only_if for one in HOOKS)
