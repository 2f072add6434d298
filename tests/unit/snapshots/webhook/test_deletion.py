"""The warning for whoever deletes a claim whose snapshots Longhorn keeps inside its volume."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from tests.unit.snapshots.memory_api import Json, MemoryApi
from ullage.app.drivers import Chosen, options_of
from ullage.engines.handles import DRIVER
from ullage.kube.builtin.core import PERSISTENT_VOLUMES
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden
from ullage.kube.review import Decision, GroupVersionKind, GroupVersionResource, Request, Review
from ullage.kube.slices import Wiring
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.slice import snapshots
from ullage.snapshots.webhook import Warner

GOES = "of claim db goes with it: Longhorn keeps snapshots inside the volume, and deletes it now"


class Labelled(MemoryApi):
    """Knows label selectors."""

    async def list(self, kind: Any, namespace: str = "", *, labels: str = "", **more: Any) -> Any:
        found = await super().list(kind, namespace, **more)
        key, _, value = labels.partition("=")
        return msgspec.structs.replace(found, items=[one for one in found.items if one.metadata.labels.get(key) == value])


def cluster(*records: Json, policy: str = "Delete", driver: str = DRIVER) -> MemoryApi:
    api = Labelled()
    spec = {"csi": {"driver": driver, "volumeHandle": "pvc-1"}, "persistentVolumeReclaimPolicy": policy}
    api.put(PERSISTENT_VOLUMES, {"metadata": {"name": "pvc-1"}, "spec": spec})
    for body in records:
        api.put(GA.records if "status" in body else PROTOTYPE.records, body)
    return api


def content(name: str, *, handle: str = "snap://pvc-1/x", namespace: str = "team", volume: str = "pvc-1", **meta: Any) -> Json:
    ref = {"namespace": namespace, "name": name, "uid": f"uid-{name}"}
    spec = {"volumeSnapshotRef": ref, "driver": DRIVER, "deletionPolicy": "Delete", "source": {"volumeHandle": "pvc-1"}}
    meta = {"name": f"snapcontent-{name}", "labels": {"ullage.io/volume": volume}, **meta}
    return {"metadata": meta, "spec": spec, "status": {"snapshotHandle": handle}}


def data(name: str) -> Json:
    ref = {"namespace": "team", "name": name, "uid": f"uid-{name}"}
    source = {"driver": DRIVER, "snapshotHandle": "snap://pvc-1/y"}
    meta = {"name": f"snapdata-{name}", "labels": {"ullage.io/volume": "pvc-1"}}
    return {"metadata": meta, "spec": {"volumeSnapshotRef": ref, "csiVolumeSnapshotSource": source}}


async def deletion(api: MemoryApi, *, volume: str = "pvc-1") -> Decision:
    body = {"metadata": {"name": "db", "namespace": "team"}, "spec": {"volumeName": volume}}
    request = Request(
        uid="1",
        operation="DELETE",
        kind=GroupVersionKind(version="v1", kind="PersistentVolumeClaim"),
        resource=GroupVersionResource(version="v1", resource="persistentvolumeclaims"),
        namespace="team",
        name="db",
        old_object=msgspec.Raw(msgspec.json.encode(body)),
    )
    return await Warner(cast(Client, api)).answer(Review(request))


@pytest.mark.parametrize(
    ("api", "warning"),
    [
        pytest.param(cluster(content("nightly")), f"VolumeSnapshot nightly {GOES}", id="one snapshot"),
        pytest.param(
            cluster(content("nightly"), data("weekly")),
            "VolumeSnapshots nightly, weekly of claim db go with it: "
            "Longhorn keeps snapshots inside the volume, and deletes it now",
            id="of both APIs",
        ),
        pytest.param(
            cluster(*(content(f"s{number}") for number in range(7))),
            "VolumeSnapshots s0, s1, s2, s3, s4 and 2 more of claim db go with it: "
            "Longhorn keeps snapshots inside the volume, and deletes it now",
            id="of many some are named",
        ),
        pytest.param(cluster(), "", id="no snapshots"),
        pytest.param(cluster(content("nightly"), policy="Retain"), "", id="the volume stays"),
        pytest.param(
            cluster(content("nightly"), driver="csi.example.com"), "", id="another driver keeps snapshots by themselves"
        ),
        pytest.param(cluster(content("nightly", handle="bs://pvc-1/backup")), "", id="a backup lies elsewhere"),
        pytest.param(cluster(content("nightly", volume="pvc-2")), "", id="snapshots of another volume"),
        pytest.param(cluster(content("nightly", namespace="other")), "", id="another namespace's objects are not told of"),
        pytest.param(cluster(content("nightly", deletionTimestamp="2026-01-01T00:05:00Z")), "", id="one that goes anyway"),
    ],
)
async def test_whoever_deletes_a_claim_is_told_what_goes_with_it(api: MemoryApi, warning: str) -> None:
    assert await deletion(api) == Decision.allow(warnings=(warning,) if warning else ())


async def test_a_claim_without_a_volume_and_an_api_that_refuses_hold_nothing_up() -> None:
    assert await deletion(cluster(), volume="") == Decision.allow()
    api = cluster(content("nightly"))

    async def refuse(*_: Any, **__: Any) -> Any:
        raise Forbidden("not yours", code=403)

    api.list = refuse  # type: ignore[method-assign]
    assert await deletion(api) == Decision.allow()


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        pytest.param(Chosen(), False, id="without Longhorn nobody asks"),
        pytest.param(Chosen(longhorn=True, manage_engines=True), False, id="where engines are ours volumes are held instead"),
        pytest.param(Chosen(longhorn=True), True, id="where Longhorn runs a warning is all there is"),
    ],
)
def test_where_the_hook_is_registered(options: Chosen, warns: bool) -> None:
    part = snapshots(options_of(options)).hooks
    assert part is not None
    made = {one.name: one for one in Wiring(cast(Client, MemoryApi())).made(part)}
    assert ("claim-with-snapshots" in made) is warns
    assert not warns or made["claim-with-snapshots"].failure_policy == "Ignore"
