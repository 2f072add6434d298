"""What a snapshot must not give away, take along or leave behind: each case on a whole control plane, with real data."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.csi_driver.faults import Fault
from tests.csi_driver.running import NAME, RunningDriver

from .apart import IS_BORROWED
from .snapshot_scene import BOTH, GA, HOSTPATH, STARTED_BY, STARTERS, Dialect, Json, Scene, csi_volume, eventually, scene

GONE = "gone.example.com"
MISSING = {404}

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="the cluster's own snapshot controller would answer too")
both = pytest.mark.parametrize("dialect", BOTH, ids=lambda one: str(one.name))


@dataclass(frozen=True, slots=True)
class Stage:
    """A control plane with controller and world, and two drivers: one to play tricks with, one to take away."""

    scene: Scene
    driver: RunningDriver
    going: RunningDriver


@pytest.fixture(scope="module", params=STARTERS, ids=STARTED_BY)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with ExitStack() as stack:
        made = stack.enter_context(scene(tmp_path_factory.mktemp("security")))
        made.starter = request.param(made)
        drivers, options = {}, []
        for name in (NAME, GONE):
            directory = made.directory / name
            directory.mkdir()
            driver = drivers[name] = RunningDriver(directory)
            driver.start(f"--name={name}")
            stack.callback(driver.kill)
            options += ["--driver", f"{name}={driver.path}", "--provision", name]
            made.storage_class(name, name)
            made.snapshot_class(name, name)
        made.snapshot_class("kept", HOSTPATH, policy="Retain", default=False)
        stack.enter_context(made.running(made.controller(*options), made.world()))
        yield Stage(made, drivers[NAME], drivers[GONE])


@pytest.fixture
def team(stage: Stage) -> Iterator[Team]:
    yield Team(stage.scene, stage.scene.namespace())
    stage.driver.set()


@dataclass(frozen=True, slots=True)
class Team:
    """A namespace."""

    scene: Scene
    namespace: str

    def get(self, path: str) -> Json:
        return self.scene.api.get(path).obj

    def gone(self, path: str) -> bool:
        return self.scene.api.get(path).code in MISSING

    def data(self, name: str = "data", content: bytes = b"content") -> Path:
        """A bound claim with a file in it; where that is."""
        files = self.scene.files(self.scene.claim(self.namespace, name))
        (files / "file").write_bytes(content)
        return files

    def csi_claim(self, driver: RunningDriver, name: str) -> str:
        handle = csi_volume(driver, f"{self.namespace}-{name}")
        source = {"csi": {"driver": name, "volumeHandle": handle}}
        return self.scene.bound_claim(self.namespace, "data", source=source, storage_class=name)

    def make(self, dialect: Dialect, body: Json) -> str:
        """Asks for a snapshot; its path."""
        path = dialect.snapshots(self.namespace)
        self.scene.api.create(path, body)
        return f"{path}/{body['metadata']['name']}"

    def taken(self, dialect: Dialect, name: str = "snap", **spec: str) -> tuple[str, str]:
        """A snapshot of the claim `data`, once it is ready; its path, and its record's."""
        path = self.make(dialect, dialect.of_claim(name, "data", **spec))
        eventually(f"{name} is ready", lambda: dialect.ready(self.get(path)))
        return path, f"{dialect.records}/{dialect.bound_to(self.get(path))}"

    def restore(self, dialect: Dialect, snapshot: str, name: str, *, size: str = "1Gi") -> str:
        source = {"apiGroup": dialect.group, "kind": "VolumeSnapshot", "name": snapshot}
        return self.scene.claim(self.namespace, name, size=size, dataSourceRef=source)

    def says(self, dialect: Dialect, path: str, *words: str) -> None:
        """Waits until the error of a snapshot or a record has all of these words."""
        eventually(f"{path} says {words}", lambda: all(word in dialect.error(self.get(path)) for word in words))

    def told(self, claim: str, words: str) -> None:
        eventually(f"{claim} is told {words}", lambda: words in self.scene.events(claim))
        assert self.get(claim)["status"]["phase"] == "Pending"

    def delete(self, path: str) -> None:
        self.scene.api.delete(path)
        eventually(f"{path} is gone", lambda: self.gone(path))


# --- whose snapshot it is ----------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("way", ["its spec names", "its status names", "both name"])
def test_a_copy_in_another_namespace_gets_nothing_and_deletes_nothing(team: Team, dialect: Dialect, way: str) -> None:
    team.data(content=b"secret")
    own, record = team.taken(dialect)
    name = record.rpartition("/")[2]
    handle = Path(dialect.handle(team.get(record)))

    thief = Team(team.scene, team.scene.namespace())
    body = dialect.of_claim("snap", "data") if way == "its status names" else dialect.of_record("snap", name)
    copy = thief.make(dialect, body)
    if way != "its spec names":
        team.scene.api.merge(f"{copy}/status", dialect.forged(name))
    stolen = thief.restore(dialect, "snap", "stolen")
    thief.says(dialect, copy, "ClaimNotFound" if way == "its status names" else "RecordMismatch")
    eventually("it claims nothing any more", lambda: not dialect.bound_to(thief.get(copy)))
    assert not dialect.ready(thief.get(copy))
    thief.told(stolen, "Snapshot")
    assert "volumeName" not in thief.get(stolen)["spec"]

    thief.delete(copy)
    assert "deletionTimestamp" not in team.get(record)["metadata"]
    assert dialect.ready(team.get(own))
    assert (handle / "data" / "file").read_bytes() == b"secret"
    assert (team.scene.files(team.restore(dialect, "snap", "mine")) / "file").read_bytes() == b"secret"


@both
def test_a_record_that_was_made_for_another_namespace_is_not_given_away(team: Team, dialect: Dialect) -> None:
    team.data()
    _, record = team.taken(GA, "first", volumeSnapshotClassName="kept")
    handle = GA.handle(team.get(record))
    name = f"import-{team.namespace}"
    ref = {"namespace": team.namespace, "name": "import"}
    team.scene.api.create(dialect.records, dialect.of_handle(name, HOSTPATH, handle=handle, ref=ref))
    thief = Team(team.scene, team.scene.namespace())
    copy = thief.make(dialect, dialect.of_record("import", name))
    thief.says(dialect, copy, "RecordMisbound", f"{name} belongs to another snapshot")
    said = str(thief.get(copy).get("status")).replace(name, "(the record that it named)")
    assert team.namespace not in said, "whose it is, is not a stranger's affair"
    mine = team.make(dialect, dialect.of_record("import", name))
    eventually("the one that is meant gets it", lambda: dialect.ready(team.get(mine)))
    thief.delete(copy)
    assert "deletionTimestamp" not in team.get(f"{dialect.records}/{name}")["metadata"]
    assert dialect.ready(team.get(mine))


@both
def test_a_record_that_shares_a_snapshot_with_another_does_not_take_it_along(team: Team, dialect: Dialect) -> None:
    team.data()
    own, record = team.taken(dialect)
    handle = dialect.handle(team.get(record))
    other = Team(team.scene, team.scene.namespace())
    name, ref = f"shared-{team.namespace}", {"namespace": other.namespace, "name": "snap"}
    team.scene.api.create(dialect.records, dialect.of_handle(name, HOSTPATH, handle=handle, ref=ref))
    shared = other.make(dialect, dialect.of_record("snap", name))
    eventually("it is bound", lambda: dialect.ready(other.get(shared)))
    other.delete(shared)
    eventually("its record is gone", lambda: other.gone(f"{dialect.records}/{name}"))
    assert Path(handle).is_dir()
    team.delete(own)
    eventually("the last one takes it along", lambda: not Path(handle).exists())


# --- what stays and what goes ------------------------------------------------------------------------------------------


@both
def test_what_is_retained_can_be_imported_and_goes_with_the_import(team: Team, dialect: Dialect) -> None:
    content = os.urandom(100_000)
    team.data(content=content)
    own, record = team.taken(GA, "kept", volumeSnapshotClassName="kept")
    handle = GA.handle(team.get(record))
    team.delete(own)
    assert "deletionTimestamp" not in team.get(record)["metadata"], "Retain: the record stays"
    team.delete(record)
    assert Path(handle).is_dir(), "Retain: the snapshot stays, even without a record"

    other = Team(team.scene, team.scene.namespace())
    name, ref = f"import-{team.namespace}", {"namespace": other.namespace, "name": "import"}
    team.scene.api.create(dialect.records, dialect.of_handle(name, HOSTPATH, handle=handle, ref=ref))
    snapshot = other.make(dialect, dialect.of_record("import", name))
    eventually("the import is ready", lambda: dialect.ready(other.get(snapshot)))
    assert (team.scene.files(other.restore(dialect, "import", "copy")) / "file").read_bytes() == content
    other.delete(snapshot)
    eventually("Delete: the record goes", lambda: other.gone(f"{dialect.records}/{name}"))
    assert not Path(handle).exists(), "Delete: and the snapshot before it"


@both
def test_an_import_of_what_is_not_there_says_so(team: Team, dialect: Dialect) -> None:
    missing = team.make(dialect, dialect.of_record("early", f"late-{team.namespace}"))
    team.says(dialect, missing, "RecordMissing", f"late-{team.namespace}")
    ref = {"namespace": team.namespace, "name": "early"}
    body = dialect.of_handle(f"late-{team.namespace}", NAME, handle="snap-none", ref=ref)
    team.scene.api.create(dialect.records, body)
    team.says(dialect, missing, NAME, "has no snapshot snap-none")
    team.delete(missing)


@both
def test_a_deletion_during_the_creation_leaves_nothing(team: Team, stage: Stage, dialect: Dialect) -> None:
    """The driver makes it, and its answer is lost every time: only the mark tells that something may be there."""
    stage.driver.set(Fault("CreateSnapshot", "ABORTED", when="after"))
    claim = team.csi_claim(stage.driver, NAME)
    path = team.make(dialect, dialect.of_claim("snap", "data"))
    name = f"snapshot-{team.get(path)['metadata']['uid']}"
    team.says(dialect, path, NAME, "ABORTED")
    assert name in {one.name for one in stage.driver.snapshots()}
    team.scene.api.delete(path)
    team.says(dialect, path, NAME, "ABORTED")
    assert not team.gone(path), "it waits until nothing is left"
    stage.driver.set()
    eventually("the snapshot is gone", lambda: team.gone(path))
    assert name not in {one.name for one in stage.driver.snapshots()}
    eventually("the claim is free", lambda: not team.get(claim)["metadata"].get("finalizers"))


@both
def test_a_claim_that_is_deleted_waits_for_the_snapshot_that_is_being_taken(team: Team, stage: Stage, dialect: Dialect) -> None:
    stage.driver.set(Fault("CreateSnapshot", "ABORTED"))
    claim = team.csi_claim(stage.driver, NAME)
    path = team.make(dialect, dialect.of_claim("snap", "data"))
    team.says(dialect, path, NAME, "ABORTED")
    team.scene.api.delete(claim)
    late = team.make(dialect, dialect.of_claim("late", "data"))
    team.says(dialect, late, "ClaimDeleting")  # by now it has had its chance
    assert "deletionTimestamp" in team.get(claim)["metadata"]
    assert not dialect.ready(team.get(path))
    stage.driver.set()
    eventually("the snapshot is ready", lambda: dialect.ready(team.get(path)))
    eventually("the claim is gone", lambda: team.gone(claim))


@both
def test_a_driver_that_is_gone_is_named_until_it_is_back(team: Team, stage: Stage, dialect: Dialect) -> None:
    team.csi_claim(stage.going, GONE)
    old, old_record = team.taken(dialect, "old")
    stage.going.kill()
    try:
        team.scene.api.delete(old)
        new = team.make(dialect, dialect.of_claim("new", "data"))
        for path in (old, old_record, new):
            team.says(dialect, path, GONE, str(stage.going.path))
        new_record = f"{dialect.records}/{dialect.bound_to(team.get(new))}"
        team.says(dialect, new_record, GONE, str(stage.going.path))
    finally:
        stage.going.start(f"--name={GONE}")
    eventually("what was deleted is gone", lambda: team.gone(old) and team.gone(old_record))
    eventually("what was asked for is ready", lambda: dialect.ready(team.get(new)))
    assert dialect.error(team.get(new)) == ""
    assert dialect.error(team.get(new_record)) == ""
    team.delete(new)
    assert stage.going.snapshots() == []


@both
def test_a_claim_that_is_smaller_than_the_snapshot_is_refused(team: Team, dialect: Dialect) -> None:
    content = os.urandom(3 << 20)
    team.data(content=content)
    team.taken(dialect)
    small = team.restore(dialect, "snap", "small", size="1Mi")
    team.told(small, "SizeTooSmall: spec.resources.requests.storage is 1Mi, and VolumeSnapshot")
    assert (team.scene.files(team.restore(dialect, "snap", "large", size="4Mi")) / "file").read_bytes() == content
    assert team.get(small)["status"]["phase"] == "Pending"


@both
def test_a_claim_that_waits_for_a_pod_holds_the_deletion_of_its_snapshot(team: Team, stage: Stage, dialect: Dialect) -> None:
    team.csi_claim(stage.driver, NAME)
    path, _ = team.taken(dialect)
    team.scene.storage_class(f"late-{team.namespace}", NAME, volumeBindingMode="WaitForFirstConsumer")
    source = {"apiGroup": dialect.group, "kind": "VolumeSnapshot", "name": "snap"}
    claim = team.scene.claim(team.namespace, "copy", storageClassName=f"late-{team.namespace}", dataSourceRef=source)
    team.told(claim, "WaitForFirstConsumer")
    team.scene.api.delete(path)
    team.says(dialect, path, "SnapshotInUse", f"claim {team.namespace}/copy is to be filled from it")
    team.scene.api.merge(claim, {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "ullage"}}})
    eventually("the volume is made", lambda: "Restored" in team.scene.events(claim))
    team.scene.api.merge(claim, {"spec": {"volumeName": f"pvc-{team.get(claim)['metadata']['uid']}"}})
    eventually(f"{path} is gone", lambda: team.gone(path))


# --- what is in a volume -----------------------------------------------------------------------------------------------


@both
def test_what_is_in_a_volume_stands_on_its_persistent_volume_from_the_start_and_after_every_snapshot(
    team: Team, dialect: Dialect
) -> None:
    """On an object that no tenant can write to: estimates are made from it. It is written with the controller's own rights."""
    files = team.data()
    claim = team.get(f"/api/v1/namespaces/{team.namespace}/persistentvolumeclaims/data")
    volume = f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}"

    def used() -> Json:
        found: Json = json.loads(team.get(volume)["metadata"].get("annotations", {}).get("ullage.io/used", "{}"))
        return found

    eventually("it is measured", lambda: used().get("by") == "measured")
    assert used()["bytes"] < 1024 * 1024
    (files / "more").write_bytes(os.urandom(3 * 1024 * 1024))
    team.taken(dialect)
    eventually("it is measured again", lambda: used()["bytes"] >= 3 * 1024 * 1024)
    assert used()["bytes"] < 4 * 1024 * 1024
