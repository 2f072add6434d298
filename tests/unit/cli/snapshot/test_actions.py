"""What the commands of `ullage snapshot` ask of a cluster, and what they say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.cli.snapshot.cluster import GA, PROTOTYPE, Cluster
from ullage.cli.common.session import Missing, NotInstalled
from ullage.cli.common.waiting import Failed
from ullage.cli.snapshot import actions
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.reading import find, is_from
from ullage.cli.snapshot.restoring import RestoreOptions, new_claim, source_of, wanted_size
from ullage.errors import BadInput
from ullage.kube.builtin import core, storage
from ullage.kube.builtin.apps import STATEFUL_SETS
from ullage.kube.builtin.core import PODS
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.kinds import Meta
from ullage.snapshots.model import Record, Ref
from ullage.snapshots.source_volume import SourceClaim

Json = dict[str, Any]
READY: Json = {"readyToUse": True, "restoreSize": "1536Mi", "creationTime": "2026-05-01T11:50:02Z"}
GIB = 2**30


def claim(name: str = "data", size: str = "10Gi", *, phase: str = "Bound", **spec: Any) -> Json:
    asks: Json = {"resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"], "volumeName": "pv-1"}
    return {"metadata": {"name": name}, "spec": {"storageClassName": "fast", **asks, **spec}, "status": {"phase": phase}}


def provisioned() -> Cluster:
    """A bound claim, its volume and classes for both APIs."""
    cluster = Cluster()
    cluster.put(core.CLAIMS, claim())
    ref = {"namespace": "shop", "name": "data", "uid": "uid-data"}
    cluster.put(
        core.PERSISTENT_VOLUMES, {"metadata": {"name": "pv-1"}, "spec": {"claimRef": ref, "hostPath": {"path": "/v/1"}}}
    )
    cluster.put(storage.STORAGE_CLASSES, {"metadata": {"name": "fast"}, "provisioner": "ullage.io/hostpath"})
    default = {"snapshot.storage.kubernetes.io/is-default-class": "true"}
    cluster.put(
        GA.classes,
        {"metadata": {"name": "plain", "annotations": default}, "driver": "ullage.io/hostpath", "deletionPolicy": "Retain"},
    )
    return cluster


def verbs(cluster: Cluster) -> set[str]:
    return {verb for verb, _, _ in cluster.asked}


# --- create ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "class_name", "spec"),
    [
        pytest.param("ga", None, {"source": {"persistentVolumeClaimName": "data"}}, id="GA"),
        pytest.param(
            "ga",
            "c",
            {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "c"},
            id="GA with a class",
        ),
        pytest.param("prototype", None, {"persistentVolumeClaimName": "data"}, id="the prototype"),
        pytest.param(
            "prototype",
            "c",
            {"persistentVolumeClaimName": "data", "storageClassName": "c"},
            id="the prototype with a class",
        ),
    ],
)
async def test_create_makes_the_object_of_the_api(
    capsys: pytest.CaptureFixture[str], dialect: str, class_name: str | None, spec: Json
) -> None:
    cluster = provisioned()
    cluster.put(GA.classes, {"metadata": {"name": "c"}, "driver": "ullage.io/hostpath", "deletionPolicy": "Delete"})
    cluster.put(storage.STORAGE_CLASSES, {"metadata": {"name": "c"}, "provisioner": "ullage.io/hostpath"})
    order = actions.CreateOptions(name="nightly", claim="data", class_name=class_name)
    await actions.create(cluster.session(dialect=dialect), order, dry_run=False, timeout=None)
    [(kind, namespace, _)] = [key for key in cluster.objects if key[2] == "nightly"]
    assert cluster.objects[kind, namespace, "nightly"]["spec"] == spec
    assert capsys.readouterr().out == f"volumesnapshot.{kind.split('.', 1)[1]}/nightly created\n"


async def foretold(cluster: Cluster, capsys: pytest.CaptureFixture[str], dialect: str = "ga") -> str:
    order = actions.CreateOptions(name="nightly", claim="data")
    await actions.create(cluster.session(dialect=dialect), order, dry_run=True, timeout=None)
    assert "create" not in verbs(cluster), "a dry run makes nothing"
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("dialect", "chosen"),
    [
        pytest.param("ga", "class plain (Retain: its data stays when the snapshot is deleted)", id="GA: the default class"),
        pytest.param(
            "prototype", "class fast (Delete: its data goes when the snapshot is deleted)", id="prototype: the claim's"
        ),
    ],
)
async def test_a_dry_run_tells_volume_driver_and_class(capsys: pytest.CaptureFixture[str], dialect: str, chosen: str) -> None:
    head, *rest = (await foretold(provisioned(), capsys, dialect)).splitlines()
    assert head.endswith("/nightly would be created (dry run)")
    assert rest == ["  claim shop/data, 10Gi, volume pv-1", "  driver ullage.io/hostpath", f"  {chosen}"]


async def test_a_dry_run_says_what_the_snapshot_will_wait_for(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = provisioned()
    cluster.put(core.CLAIMS, claim(phase="Pending"))
    shown = await foretold(cluster, capsys)
    assert "  waits: claim shop/data is Pending; the snapshot is taken once the claim is Bound" in shown.splitlines()


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        pytest.param(core.CLAIMS, "ClaimNotFound: claim shop/data does not exist", id="no claim"),
        pytest.param(core.PERSISTENT_VOLUMES, "VolumeNotFound: volume pv-1 of claim shop/data does not exist", id="no volume"),
        pytest.param(GA.classes, "NoDefaultClass: no class is marked as the default", id="no class"),
    ],
)
async def test_a_dry_run_of_what_would_fail_fails(capsys: pytest.CaptureFixture[str], missing: Any, reason: str) -> None:
    cluster = provisioned()
    cluster.objects = {key: body for key, body in cluster.objects.items() if key[0] != missing.name}
    with pytest.raises(Failed, match=f"^snapshot nightly would not be created: {reason}"):
        await foretold(cluster, capsys)


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        pytest.param(core.PERSISTENT_VOLUMES, "not checked: you may not read volume pv-1", id="volumes"),
        pytest.param(GA.classes, "not checked: you may not read volumesnapshotclasses", id="classes"),
        pytest.param(core.CLAIMS, "not checked: you may not read claims", id="claims"),
    ],
)
async def test_what_may_not_be_read_is_not_checked_and_no_failure(
    capsys: pytest.CaptureFixture[str], hidden: Any, said: str
) -> None:
    cluster = provisioned()
    cluster.hidden = {hidden.name}
    assert (await foretold(cluster, capsys)).splitlines()[-1] == f"  {said}"


async def test_a_cluster_without_the_kinds_is_told_from_a_namespace_that_is_missing() -> None:
    with pytest.raises(
        NotInstalled, match=r"does not serve volumesnapshots\.snapshot.*is Ullage installed on it\? ullage install"
    ):
        await actions.create(
            Cluster(GA.snapshots).session(dialect="ga"), actions.CreateOptions(name="a", claim="b"), dry_run=False, timeout=None
        )

    class Nowhere(Cluster):
        async def create(self, *_: Any, **__: Any) -> Any:
            raise NotFound('namespaces "shop" not found', code=404)

    with pytest.raises(NotFound, match='namespaces "shop" not found'):
        await actions.create(
            Nowhere().session(dialect="ga"), actions.CreateOptions(name="a", claim="b"), dry_run=False, timeout=None
        )


@pytest.mark.parametrize(
    ("missing", "error"),
    [
        pytest.param(core.CLAIMS, "ClaimNotFound: claim shop/data does not exist", id="no claim"),
        pytest.param(GA.classes, "NoDefaultClass: no class is marked as the default", id="no class"),
    ],
)
async def test_what_would_fail_is_not_created(missing: Any, error: str) -> None:
    cluster = provisioned()
    cluster.objects = {key: body for key, body in cluster.objects.items() if key[0] != missing.name}
    order = actions.CreateOptions(name="nightly", claim="data")
    with pytest.raises(Failed, match=f"^snapshot nightly was not created: {error}"):
        await actions.create(cluster.session(dialect="ga"), order, dry_run=False, timeout=None)
    assert "create" not in verbs(cluster)


async def test_what_may_not_be_read_keeps_nobody_from_creating(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = provisioned()
    cluster.hidden = {core.CLAIMS.name, core.PERSISTENT_VOLUMES.name, GA.classes.name}
    order = actions.CreateOptions(name="nightly", claim="data")
    await actions.create(cluster.session(dialect="ga"), order, dry_run=False, timeout=None)
    assert capsys.readouterr().out.endswith("/nightly created\n")


# --- list ------------------------------------------------------------------------------------------------------------


def populated() -> Cluster:
    cluster = provisioned()
    cluster.snapshot("labelled", "data", labels={"ullage.io/claim": "data", "ullage.io/volume": "pv-1"})
    cluster.snapshot("bare", "data")
    cluster.snapshot("proto", "data", dialect=PROTOTYPE, labels={"ullage.io/claim": "data"})
    cluster.snapshot("other", "logs", labels={"ullage.io/claim": "logs"})
    cluster.snapshot("third", "data-db-3")
    cluster.snapshot("elsewhere", "data", namespace="office", labels={"ullage.io/claim": "data"})
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "logs"}}]
    cluster.put(PODS, {"metadata": {"name": "web"}, "spec": {"volumes": volumes}})
    cluster.put(PODS, {"metadata": {"name": "stateless"}})
    templates = [{"metadata": {"name": "data"}}]
    cluster.put(STATEFUL_SETS, {"metadata": {"name": "db"}, "spec": {"replicas": 1, "volumeClaimTemplates": templates}})
    return cluster


async def listed(cluster: Cluster, what: str = "", name: str = "", *, namespace: str = "shop", **more: Any) -> set[str]:
    answer = await actions.listing(cluster.session(namespace), actions.ListOptions(what=what, name=name, **more))
    return {one.obj.metadata.name for one in answer.listed.found}


@pytest.mark.parametrize(
    ("what", "name", "found"),
    [
        pytest.param("", "", {"labelled", "bare", "proto", "other", "third"}, id="all of the namespace, of both APIs"),
        pytest.param("pvc", "data", {"labelled", "bare", "proto"}, id="of a claim, labelled or not"),
        pytest.param("pod", "web", {"other"}, id="of a pod"),
        pytest.param("statefulset", "db", {"third"}, id="of a StatefulSet, of an ordinal that is no more"),
        pytest.param("pv", "pv-1", {"labelled", "bare", "proto"}, id="of a volume, by label or by its claim"),
        pytest.param("pv", "pv-9", set(), id="of a volume that nobody knows"),
    ],
)
async def test_lists_can_be_narrowed(what: str, name: str, found: set[str]) -> None:
    assert await listed(populated(), what, name) == found


async def test_all_namespaces() -> None:
    assert await listed(populated(), "pvc", "data", everywhere=True) == {"labelled", "bare", "proto", "elsewhere"}


async def test_the_api_server_does_the_choosing_by_label() -> None:
    cluster = populated()
    await listed(cluster, "pvc", "data")
    selectors = [what for verb, kind, what in cluster.asked if verb == "list" and kind == GA.snapshots.name]
    assert selectors == ["!ullage.io/claim", "ullage.io/claim in (data)"]


async def test_a_volume_leads_to_the_namespace_of_its_claim_unless_one_is_named() -> None:
    assert await listed(populated(), "pv", "pv-1", namespace="office") == {"labelled", "bare", "proto"}
    assert await listed(populated(), "pv", "pv-1", namespace="office", namespace_given=True) == set()


async def test_a_volume_that_may_not_be_read_is_found_by_label() -> None:
    cluster = populated()
    cluster.hidden = {core.PERSISTENT_VOLUMES.name}
    assert await listed(cluster, "pv", "pv-1") == {"labelled"}


async def test_a_pod_without_claims_has_no_snapshots_and_nothing_is_asked() -> None:
    cluster = populated()
    answer = await actions.listing(cluster.session(), actions.ListOptions(what="pod", name="stateless"))
    assert (answer.claimless, list(answer.listed.found)) == (True, [])


async def test_a_pod_that_is_missing_is_named() -> None:
    with pytest.raises(Missing, match="Pod ghost does not exist in namespace shop"):
        await listed(populated(), "pod", "ghost")


async def test_an_api_that_is_not_served_is_left_out() -> None:
    cluster = populated()
    cluster.absent = {PROTOTYPE.snapshots.name}
    answer = await actions.listing(cluster.session(), actions.ListOptions())
    assert [one.name for one in answer.listed.served] == ["ga"]


async def test_an_api_that_may_not_be_read_is_left_out_with_a_note() -> None:
    cluster = populated()
    cluster.hidden = {PROTOTYPE.snapshots.name}
    answer = await actions.listing(cluster.session(), actions.ListOptions())
    assert len(answer.listed.found) == 4
    assert "is forbidden" in answer.listed.notes[0]


async def test_a_list_of_nothing_that_may_be_read_is_refused() -> None:
    cluster = populated()
    cluster.hidden = {GA.snapshots.name, PROTOTYPE.snapshots.name}
    with pytest.raises(Forbidden):
        await listed(cluster)


async def test_a_cluster_without_any_snapshots_kind_says_how_to_install() -> None:
    with pytest.raises(NotInstalled, match=r"is Ullage installed on it\? ullage install"):
        await listed(Cluster(GA.snapshots, PROTOTYPE.snapshots))


# --- find, describe, delete ------------------------------------------------------------------------------------------


async def test_a_name_is_looked_for_in_ga_first() -> None:
    cluster = Cluster()
    cluster.snapshot("both", "data", dialect=PROTOTYPE)
    assert (await find(cluster.session(), "both")).dialect is PROTOTYPE
    cluster.snapshot("both", "data")
    assert (await find(cluster.session(), "both")).dialect is GA
    assert (await find(cluster.session(dialect="prototype"), "both")).dialect is PROTOTYPE


async def test_a_missing_name_says_where_it_was_looked_for() -> None:
    with pytest.raises(Missing) as caught:
        await find(Cluster().session(), "x")
    assert str(caught.value) == (
        "snapshot x does not exist in namespace shop, "
        "in snapshot.storage.k8s.io (ga) or volumesnapshot.external-storage.k8s.io (prototype)"
    )


async def test_what_may_not_be_read_is_not_said_to_be_missing() -> None:
    cluster = Cluster()
    cluster.hidden = {PROTOTYPE.snapshots.name}
    with pytest.raises(Forbidden):
        await find(cluster.session(), "x")


async def test_a_description_gathers_record_and_restored_claims() -> None:
    cluster = Cluster()
    cluster.snapshot("s", "data", status={"boundVolumeSnapshotContentName": "c"})
    ref = {"namespace": "shop", "name": "s", "uid": "uid-s"}
    spec = {"volumeSnapshotRef": ref, "deletionPolicy": "Delete", "driver": "d", "source": {"volumeHandle": "v"}}
    cluster.put(GA.records, {"metadata": {"name": "c"}, "spec": spec})
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    cluster.put(core.CLAIMS, claim("copy", dataSourceRef=source))
    cluster.put(core.CLAIMS, claim("unrelated", dataSourceRef={**source, "name": "t"}))
    known = await actions.describe(cluster.session(), "s")
    assert known.record is not None
    assert not isinstance(known.record, Forbidden)
    assert known.record.driver == "d"
    assert [one.metadata.name for one in known.claims] == ["copy"]


async def test_if_one_is_missing_none_is_deleted() -> None:
    cluster = Cluster()
    cluster.snapshot("a", "data")
    with pytest.raises(Missing, match=r"snapshot b does not exist in namespace shop.*; nothing was deleted"):
        await actions.delete(cluster.session(), ["a", "b"], dry_run=False, timeout=None)
    assert "delete" not in verbs(cluster)


@pytest.mark.parametrize(
    ("dry_run", "left", "said"),
    [
        pytest.param(False, 0, "volumesnapshot.snapshot.storage.k8s.io/a deleted\n", id="really"),
        pytest.param(
            True,
            1,
            "volumesnapshot.snapshot.storage.k8s.io/a would be deleted (dry run): claim data, ready, 1.5Gi\n",
            id="as a dry run",
        ),
    ],
)
async def test_delete(capsys: pytest.CaptureFixture[str], dry_run: bool, left: int, said: str) -> None:
    cluster = Cluster()
    cluster.snapshot("a", "data", status=READY)
    await actions.delete(cluster.session(), ["a"], dry_run=dry_run, timeout=None)
    assert (len(cluster.objects), capsys.readouterr().out) == (left, said)


# --- restore ---------------------------------------------------------------------------------------------------------


def ready(dialect: Any = GA, **status: Any) -> Found:
    return Cluster().snapshot("s", "data", dialect=dialect, status={**READY, **status} if dialect is GA else {})


def source_claim(**spec: Any) -> SourceClaim:
    """As the claim that is there now tells it: nothing is stamped."""
    return source_of(ready(), None, msgspec.convert(claim(**spec), core.PersistentVolumeClaim))


@pytest.mark.parametrize(
    ("needed", "source", "wish", "expected"),
    [
        pytest.param(GIB, source_claim(size="10Gi"), None, 10 * GIB, id="as large as the source, with room left"),
        pytest.param(20 * GIB, source_claim(size="10Gi"), None, 20 * GIB, id="a source that grew after its request"),
        pytest.param(None, source_claim(size="10Gi"), None, 10 * GIB, id="a driver that tells no size"),
        pytest.param(GIB, SourceClaim(), None, GIB, id="a source that is gone, and stamped nowhere"),
        pytest.param(GIB, source_claim(size="10Gi"), 2 * GIB, 2 * GIB, id="as wished"),
        pytest.param(GIB, SourceClaim(), GIB, GIB, id="exactly what is needed"),
    ],
)
def test_how_large_the_claim_is(needed: int | None, source: SourceClaim, wish: int | None, expected: int) -> None:
    assert wanted_size(needed, source, RestoreOptions(to="copy", size=wish)) == expected


@pytest.mark.parametrize(
    ("needed", "wish", "said"),
    [
        pytest.param(GIB, GIB // 2, "--size 512Mi: the snapshot needs 1Gi (1073741824 bytes) at least", id="half of it"),
        pytest.param(
            GIB, GIB - 1, "--size 1073741823: the snapshot needs 1Gi (1073741824 bytes) at least", id="a byte too small"
        ),
        pytest.param(None, None, "--size (absent): neither the snapshot nor its claim tells", id="nobody tells"),
    ],
)
def test_a_size_that_cannot_be(needed: int | None, wish: int | None, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        wanted_size(needed, SourceClaim(), RestoreOptions(to="copy", size=wish))
    assert str(caught.value).startswith(said)


def test_the_new_claim_is_like_the_source() -> None:
    source = source_claim(accessModes=["ReadWriteMany"], volumeMode="Block", storageClassName="slow")
    made = new_claim(ready(), source, RestoreOptions(to="copy"))
    assert msgspec.to_builtins(made) == {
        "metadata": {"name": "copy", "namespace": "shop"},
        "spec": {
            "accessModes": ("ReadWriteMany",),
            "volumeMode": "Block",
            "storageClassName": "slow",
            "resources": {"requests": {"storage": "10Gi"}},
            "dataSourceRef": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"},
        },
    }


STAMPS = {
    "ullage.io/source-size": "1Gi",
    "ullage.io/source-class": "fast",
    "ullage.io/source-access-modes": "ReadWriteOnce,ReadOnlyMany",
    "ullage.io/source-volume-mode": "Block",
}
STAMPED = SourceClaim(size=GIB, class_name="fast", access_modes=("ReadWriteOnce", "ReadOnlyMany"), volume_mode="Block")
FORGED = {**STAMPS, "ullage.io/source-size": "4Ki", "ullage.io/source-class": "other"}


def stamped_record(uid: str = "uid-s") -> Record:
    return Record(meta=Meta(name="content", annotations=STAMPS), ref=Ref("shop", "s", uid), driver="csi.example.com")


@pytest.mark.parametrize(
    ("annotations", "record", "claim_now", "expected"),
    [
        pytest.param(FORGED, stamped_record(), None, STAMPED, id="the record tells, whatever somebody wrote on the snapshot"),
        pytest.param(STAMPS, None, None, STAMPED, id="the snapshot tells those who may not read records"),
        pytest.param(STAMPS, stamped_record("uid-earlier"), None, STAMPED, id="a record of another snapshot tells nothing"),
        pytest.param(STAMPS, None, claim(size="20Gi"), STAMPED, id="a later claim of the name is another"),
        pytest.param({}, None, None, SourceClaim(), id="nothing is known"),
        pytest.param({"ullage.io/source-size": "many"}, None, None, SourceClaim(), id="what cannot be read is not there"),
    ],
)
def test_the_source_is_what_it_was_when_the_snapshot_was_made(
    annotations: dict[str, str], record: Record | None, claim_now: Any, expected: SourceClaim
) -> None:
    found = Cluster().snapshot("s", "data", status=READY, annotations=annotations)
    now = msgspec.convert(claim_now, core.PersistentVolumeClaim) if claim_now is not None else None
    assert source_of(found, record, now) == expected


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        pytest.param({"annotations": {"ullage.io/restored-from-uid": "uid-s"}}, True, id="filled from this snapshot"),
        pytest.param(
            {"annotations": {"ullage.io/restored-from-uid": "uid-old"}}, False, id="filled from an earlier one of the name"
        ),
        pytest.param({"spec": {}}, True, id="it waits, so it gets what has the name"),
        pytest.param({}, True, id="another provisioner filled it, after the snapshot was made"),
        pytest.param({"creationTimestamp": "2020-01-01T00:00:00Z"}, False, id="it was filled before the snapshot was there"),
    ],
)
def test_a_claim_was_restored_from_a_snapshot_if_it_was_that_very_one(changed: dict[str, Any], counts: bool) -> None:
    found = Cluster().snapshot("s", "data", status=READY)
    meta = {"name": "copy", "namespace": "shop", "creationTimestamp": found.obj.metadata.creation_timestamp}
    meta |= {key: value for key, value in changed.items() if key != "spec"}
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    spec = {"dataSourceRef": source, **changed.get("spec", {"volumeName": "pvc-1"})}
    assert is_from(msgspec.convert({"metadata": meta, "spec": spec}, core.PersistentVolumeClaim), found) is counts


def test_a_prototype_snapshot_is_named_by_its_group() -> None:
    made = new_claim(ready(PROTOTYPE), source_claim(), RestoreOptions(to="copy", class_name="slow"))
    assert made.spec.data_source_ref is not None
    assert made.spec.data_source_ref.api_group == "volumesnapshot.external-storage.k8s.io"
    assert made.spec.storage_class_name == "slow"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(
            ready(readyToUse=False, error={"message": "DriverError: gone"}),
            "nothing can be restored from snapshot s: DriverError: gone",
            id="a snapshot that failed",
        ),
        pytest.param(
            Cluster().snapshot("s", "data", status=READY, deletionTimestamp="2026-05-01T12:00:00Z"),
            "nothing can be restored from snapshot s: it is being deleted",
            id="a snapshot that goes",
        ),
    ],
)
def test_nothing_is_restored_from_what_has_no_data(found: Found, said: str) -> None:
    with pytest.raises(Failed) as caught:
        new_claim(found, source_claim(), RestoreOptions(to="copy"))
    assert str(caught.value) == said


async def test_restore_makes_the_claim_and_notes_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = provisioned()
    cluster.snapshot("s", "data")
    await actions.restore(cluster.session(), "s", RestoreOptions(to="copy"), dry_run=False, timeout=None)
    assert (core.CLAIMS.name, "shop", "copy") in cluster.objects
    printed = capsys.readouterr()
    assert printed.out == "persistentvolumeclaim/copy created\n"
    assert printed.err == "ullage: note: SnapshotNotReady: the snapshot is not ready; the claim is filled once it is\n"


async def test_a_dry_run_of_restore_shows_the_claim_and_makes_none(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = provisioned()
    cluster.snapshot("s", "data", status=READY)
    await actions.restore(cluster.session(), "s", RestoreOptions(to="copy"), dry_run=True, timeout=1.0)
    assert (core.CLAIMS.name, "shop", "copy") not in cluster.objects
    assert capsys.readouterr().out.splitlines() == [
        "persistentvolumeclaim/copy would be created (dry run)",
        "  from volumesnapshot.snapshot.storage.k8s.io/s",
        "  10Gi, ReadWriteOnce, Filesystem",
        "  class fast",
    ]
