"""Volumes of engines from the claim to their end, as `ullage up` has them: the life cycle of their snapshots, data compared
byte by byte, volumes that take their snapshots with them, and processes killed with -9 meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ullage.engines.client.connection import HostConnection, address_of

from .apart import IS_BORROWED
from .engine_scene import LONGHORN, MIB, NAMESPACE, SIZE, EngineScene, engine_scene, eventually
from .snapshot_scene import GA, PROTOTYPE, VOLUMES
from .test_up import Up

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.timeout(240),
]
HEAD = "volume-head"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineScene]:
    with engine_scene(tmp_path_factory.mktemp("engines")) as made:
        yield made


def gone(scene: EngineScene, volume: str) -> bool:
    """Nothing of it is left, neither in the API nor on the host."""
    found = [scene.get("volumes", volume), scene.get("engines", f"{volume}-e-0"), *scene.snapshots(volume)]
    there = scene.api.get(f"{VOLUMES}/{volume}").code == 200 or volume in scene.volumes_on_host()
    return not there and not any(found)


@pytest.mark.parametrize("mode", ["Block", "Filesystem"])
def test_a_claim_is_bound_to_a_volume_of_its_own_and_leaves_nothing(scene: EngineScene, mode: str) -> None:
    claim, volume = scene.claim(scene.base.namespace(), "data", volumeMode=mode)
    found = scene.api.get(f"{VOLUMES}/{volume}").obj["spec"]
    assert (found["csi"]["driver"], found["csi"]["volumeHandle"]) == ("driver.longhorn.io", volume)
    assert (found["capacity"]["storage"], found["volumeMode"]) == ("32Mi", mode)
    eventually("nobody uses it", lambda: scene.state(volume) == "detached" and scene.engine_state(volume) == "stopped")
    scene.api.delete(claim)
    eventually("nothing is left", lambda: gone(scene, volume))


def test_the_life_of_a_snapshot(scene: EngineScene) -> None:
    namespace = scene.base.namespace()
    claim, volume = scene.claim(namespace, "data", volumeMode="Block")
    pod = scene.pod(namespace, "data")
    eventually("a pod has it attached", lambda: scene.state(volume) == "attached")
    data = os.urandom(4 * MIB)
    scene.write(volume, MIB, data)
    scene.take(volume, "life-1")
    scene.write(volume, MIB, bytes(4 * MIB))
    row = scene.kubectl("get", "snapshots.longhorn.io", "life-1").row("life-1")
    assert row[1] == volume
    assert row[3:6] == ["true", str(4 * MIB), str(SIZE)]
    found = scene.get("snapshots", "life-1")
    assert found is not None
    assert found["metadata"]["labels"]["longhornvolume"] == volume
    assert found["metadata"]["finalizers"] == ["longhorn.io"]
    assert found["status"]["requestedTime"] <= found["status"]["creationTime"]

    scene.volume("life-copy", nodeID="ullage", dataSource=f"snap://{volume}/life-1")
    eventually("the copy is attached", lambda: scene.state("life-copy") == "attached")
    assert scene.read("life-copy", MIB, 4 * MIB) == data
    assert scene.read(volume, MIB, 4 * MIB) == bytes(4 * MIB)

    scene.api.delete(pod)
    eventually("it is detached", lambda: scene.state(volume) == "detached" and scene.engine_state(volume) == "stopped")
    scene.take(volume, "life-2")
    eventually("it is detached again", lambda: scene.state(volume) == "detached" and not scene.tickets(volume))
    scene.kubectl("delete", "snapshots.longhorn.io", "life-1", "--timeout=60s")
    eventually("the ticket is given back", lambda: scene.state(volume) == "detached" and not scene.tickets(volume))
    scene.attach(volume)
    assert scene.entries(volume) == {"life-2", HEAD}

    scene.api.delete(claim)
    scene.api.delete(f"{LONGHORN}/volumes/life-copy")
    for name in (volume, "life-copy"):
        eventually(f"nothing of {name} is left", partial(gone, scene, name))


def test_snapshots_are_pruned_by_the_label_of_their_volume(scene: EngineScene) -> None:
    _, volume = scene.claim(scene.base.namespace(), "data")
    _, other = scene.claim(scene.base.namespace(), "data")
    scene.attach(volume)
    names = [f"prune-{number}" for number in range(3)]
    for number, name in enumerate(names):
        scene.write(volume, number * MIB, os.urandom(MIB))
        scene.take(volume, name)
    scene.take(other, "prune-other")
    data = scene.read(volume, 0, SIZE)
    scene.kubectl("delete", "snapshots.longhorn.io", "-l", f"longhornvolume={volume}", "--wait=false")
    eventually("all but the parent of the head are gone", lambda: scene.snapshots(volume) == {"prune-2"})
    eventually("it says why", lambda: scene.condition("prune-2", "LogicallyRemoved") == "ParentOfHead")
    assert scene.entries(volume) == {"prune-2", HEAD}
    scene.take(volume, "prune-next")
    eventually("the next snapshot lets it go", lambda: scene.snapshots(volume) == {"prune-next"})
    assert scene.entries(volume) == {"prune-next", HEAD}
    assert scene.read(volume, 0, SIZE) == data
    assert scene.snapshots(other) == {"prune-other"}


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_volume_takes_its_snapshots_with_it_and_a_later_one_of_the_name_has_none(scene: EngineScene, count: int) -> None:
    """Ready ones, one that is marked and waits, and one that has just been asked for."""
    volume = f"phases-{count}"
    scene.volume(volume, nodeID="ullage")
    eventually("it is attached", lambda: scene.state(volume) == "attached")
    scene.write(volume, 0, b"old" * 4096)
    names = [f"{volume}-{number}" for number in range(count)]
    for name in names:
        scene.take(volume, name)
    if names:
        scene.kubectl("delete", "snapshots.longhorn.io", names[-1], "--wait=false")
        eventually("it is only marked", lambda: scene.condition(names[-1], "LogicallyRemoved") == "ParentOfHead")
    scene.attach(volume, "")
    if count > 1:
        scene.ask(volume, f"{volume}-late")
    uid = scene.api.get(f"{LONGHORN}/volumes/{volume}").obj["metadata"]["uid"]
    scene.api.delete(f"{LONGHORN}/volumes/{volume}")
    eventually("nothing is left", lambda: gone(scene, volume))

    scene.volume(volume, nodeID="ullage")
    eventually("the later one is attached", lambda: scene.state(volume) == "attached")
    assert scene.api.get(f"{LONGHORN}/volumes/{volume}").obj["metadata"]["uid"] != uid
    assert scene.read(volume, 0, 4096) == bytes(4096)
    assert scene.entries(volume) == {HEAD}
    scene.take(volume, f"{volume}-fresh")
    assert scene.snapshots(volume) == {f"{volume}-fresh"}
    scene.api.delete(f"{LONGHORN}/volumes/{volume}")
    eventually("nothing is left of the later one", lambda: gone(scene, volume))


def test_a_restored_claim_has_the_data_of_its_snapshot(scene: EngineScene) -> None:
    namespace = scene.base.namespace()
    claim, volume = scene.claim(namespace, "data", volumeMode="Block")
    scene.attach(volume)
    scene.write(volume, 3 * MIB, os.urandom(5 * MIB))
    data = scene.read(volume, 0, SIZE)
    snapshots = GA.snapshots(namespace)
    scene.api.create(snapshots, GA.of_claim("snap", "data"))
    eventually("it is ready", lambda: GA.ready(scene.api.get(f"{snapshots}/snap").obj))
    scene.write(volume, 0, os.urandom(8 * MIB))
    reference = {"apiGroup": GA.group, "kind": "VolumeSnapshot", "name": "snap"}
    copy, restored = scene.claim(namespace, "copy", volumeMode="Block", dataSourceRef=reference)
    scene.attach(restored)
    assert scene.read(restored, 0, SIZE) == data
    eventually("its base is an object of its own", lambda: scene.snapshots(restored) == {f"{restored}-base"})
    conditions = (scene.get("volumes", restored) or {}).get("status", {}).get("conditions", ())
    assert [one for one in conditions if one["status"] == "False"] == []

    scene.api.delete(f"{snapshots}/snap")
    eventually("the snapshot is gone", lambda: scene.api.get(f"{snapshots}/snap").code == 404)
    for path in (claim, copy):
        scene.api.delete(path)
    for name in (volume, restored):
        eventually(f"nothing of {name} is left", partial(gone, scene, name))


def test_limits_of_a_volume_hold_for_persons_and_for_the_snapshots_of_tenants(scene: EngineScene) -> None:
    namespace = scene.base.namespace()
    claim, volume = scene.claim(namespace, "data")
    path = f"{LONGHORN}/volumes/{volume}"
    scene.attach(volume)
    scene.take(volume, "limit-first")
    scene.api.merge(path, {"spec": {"snapshotMaxCount": 3}})

    asked = [{**snapshot_of(volume), "metadata": {"name": f"limit-{number}"}} for number in range(10)]
    with ThreadPoolExecutor(10) as threads:
        answers = list(threads.map(lambda body: scene.api.call("POST", f"{LONGHORN}/snapshots", body), asked))
    assert sorted(one.code for one in answers) == [201, 201] + 8 * [403], "room for two is room for two"
    hint = f"kubectl get snapshots.longhorn.io -n {NAMESPACE} -l longhornvolume={volume}"
    said = [one.obj["message"].partition(" denied the request: ")[2] for one in answers if one.code == 403]
    assert all(one.endswith(f", and 3 are allowed (snapshotMaxCount); delete some first: {hint}") for one in said), said
    shown = scene.kubectl(*hint.split()[1:]).lines[1:]
    assert {line.split()[0] for line in shown} >= {"limit-first"}, "the hint works as it is printed"
    eventually("both are ready", lambda: sum(scene.is_ready(f"limit-{number}") for number in range(10)) == 2)

    refused = scene.api.call("PATCH", path, {"spec": {"snapshotMaxCount": 2}}, headers=MERGE)
    assert (refused.code, f"2 is too little: volume {volume} has 3 snapshots; delete some first" in refused.obj["message"]) == (
        422,
        True,
    )

    scene.api.merge(path, {"spec": {"snapshotMaxCount": 4}})
    snapshots = GA.snapshots(namespace)
    for number in range(10):
        scene.api.create(snapshots, GA.of_claim(f"snap-{number}", "data"))
    found = [f"{snapshots}/snap-{number}" for number in range(10)]
    eventually("each is taken, or says why not", lambda: all(_is_told(scene, one) for one in found))
    objects = [scene.api.get(one).obj for one in found]
    assert sum(map(GA.ready, objects)) == 1
    assert {one["status"]["error"]["message"] for one in objects if not GA.ready(one)} == {
        f"SnapshotCountLimit: volume {volume} has 4 snapshots, and 4 are allowed (snapshotMaxCount); delete some of them first"
    }
    assert len(scene.entries(volume)) == 4 + 1, "with the head"
    scene.api.delete(claim)
    for one in found:
        scene.api.delete(one)
    eventually("nothing is left", lambda: gone(scene, volume) and all(scene.api.get(one).code == 404 for one in found))


def snapshot_of(volume: str) -> dict[str, Any]:
    return {"apiVersion": "longhorn.io/v1beta2", "kind": "Snapshot", "spec": {"volume": volume}}


def _is_told(scene: EngineScene, snapshot: str) -> bool:
    found = scene.api.get(snapshot).obj
    return GA.ready(found) or bool(found.get("status", {}).get("error"))


def test_a_claim_goes_and_the_data_of_its_snapshots_stays_until_they_go(scene: EngineScene) -> None:
    namespace = scene.base.namespace()
    claim, volume = scene.claim(namespace, "data", volumeMode="Block")
    scene.attach(volume)
    scene.write(volume, 3 * MIB, os.urandom(5 * MIB))
    data = scene.read(volume, 0, SIZE)
    snapshots = GA.snapshots(namespace)
    scene.api.create(snapshots, GA.of_claim("snap", "data"))
    eventually("it is ready", lambda: GA.ready(scene.api.get(f"{snapshots}/snap").obj))
    (inside,) = scene.snapshots(volume)
    scene.attach(volume, "")

    scene.api.delete(claim)
    eventually("the claim is gone", lambda: scene.api.get(claim).code == 404)
    shown = f"VolumeSnapshot {namespace}/snap"
    note = f"volume {volume} stays: it has the data of {shown}; it goes when they are deleted"
    path = f"{VOLUMES}/{volume}"
    eventually("it is told who holds it", lambda: scene.api.get(path).obj["status"].get("message") == note)
    status = scene.api.get(path).obj["status"]
    assert (status["phase"], status["reason"]) == ("Released", "VolumeHeld")
    for what in (f"snapshots.longhorn.io/{inside}", f"volumes.longhorn.io/{volume}"):
        refused = scene.kubectl.fails("delete", what)
        assert f"is held by {shown} (VolumeSnapshotContent/snapcontent-" in refused
    assert scene.snapshots(volume) == {inside}

    reference = {"apiGroup": GA.group, "kind": "VolumeSnapshot", "name": "snap"}
    copy, restored = scene.claim(namespace, "copy", volumeMode="Block", dataSourceRef=reference)
    scene.attach(restored)
    assert scene.read(restored, 0, SIZE) == data
    scene.api.delete(f"{snapshots}/snap")
    eventually("nothing of the volume is left", lambda: gone(scene, volume))
    scene.api.delete(copy)
    eventually("nothing of the copy is left", lambda: gone(scene, restored))


def test_while_the_webhook_is_away_snapshots_and_volumes_are_let_go_of(scene: EngineScene) -> None:
    claim, volume = scene.claim(scene.base.namespace(), "data")
    scene.attach(volume)
    for name in ("away-1", "away-2", "away-3"):
        scene.take(volume, name)
    scene.end("webhook")
    try:
        asked = scene.api.call("POST", f"{LONGHORN}/snapshots", {**snapshot_of(volume), "metadata": {"name": "away-4"}})
        assert asked.code == 500, "it is registered, and away"
        scene.kubectl("delete", "snapshots.longhorn.io", "away-1", "--timeout=60s")
        scene.kubectl("label", "snapshots.longhorn.io", "away-2", "app=db")
        for change, words in (
            ({"metadata": {"finalizers": None}}, "kubectl delete validatingadmissionpolicybindings ullage-engine-objects"),
            ({"metadata": {"ownerReferences": None}}, "stays its owner"),
            ({"spec": {"volume": "other"}}, "volume cannot be changed"),
        ):
            answer = scene.api.call("PATCH", f"{LONGHORN}/snapshots/away-2", change, headers=MERGE)
            assert answer.code in (403, 422), answer.raw
            assert words in answer.obj["message"]
        scene.api.delete(claim)
        eventually("nothing is left", lambda: gone(scene, volume))
    finally:
        scene.start("webhook")
    _, later = scene.claim(scene.base.namespace(), "data")
    eventually("it is served again", lambda: _is_admitted(scene, later))


def _is_admitted(scene: EngineScene, volume: str) -> bool:
    body = {**snapshot_of(volume), "metadata": {"name": "away-again"}}
    return bool(scene.api.call("POST", f"{LONGHORN}/snapshots?dryRun=All", body).code == 201)


@pytest.mark.parametrize("dialect", [GA, PROTOTYPE], ids=lambda one: one.name)
def test_a_snapshot_that_is_lost_says_so_at_once(scene: EngineScene, dialect: Any) -> None:
    namespace = scene.base.namespace()
    claim, volume = scene.claim(namespace, "data", volumeMode="Block")
    path = f"{dialect.snapshots(namespace)}/snap"
    scene.api.create(dialect.snapshots(namespace), dialect.of_claim("snap", "data"))
    eventually("it is ready", lambda: dialect.ready(scene.api.get(path).obj))
    (inside,) = scene.snapshots(volume)
    found = f"{LONGHORN}/snapshots/{inside}"
    ours = {"Impersonate-User": "system:serviceaccount:ullage-system:controller"}  # nobody else may delete what is held
    assert scene.api.call("DELETE", found, headers=ours).code == 200
    eventually("it says so", lambda: "does not have it any more" in json.dumps(scene.api.get(path).obj["status"]))
    assert not dialect.ready(scene.api.get(path).obj)
    eventually("an Event tells it", lambda: "SnapshotLost" in _events(scene, namespace))
    scene.api.delete(claim)
    eventually("nothing is held for it", lambda: gone(scene, volume))
    scene.api.delete(path)
    eventually("it is gone", lambda: scene.api.get(path).code == 404)


def _events(scene: EngineScene, namespace: str) -> str:
    found = scene.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events").obj["items"]
    return " ".join(one["reason"] for one in found)


@pytest.mark.slow
def test_every_process_may_be_killed_and_the_work_goes_on(scene: EngineScene) -> None:
    namespace = scene.base.namespace()
    claim, volume = scene.claim(namespace, "data")
    scene.attach(volume)
    data = os.urandom(2 * MIB)
    scene.write(volume, 0, data)
    for number, name in enumerate(("engine", "controller", "world", "webhook")):
        scene.ask(volume, f"killed-{number}")
        scene.kill(name)
        eventually(f"the snapshot is ready after {name} died", partial(scene.is_ready, f"killed-{number}"))
    eventually("it is attached again", lambda: scene.volumes_on_host()[volume])
    assert scene.read(volume, 0, 2 * MIB) == data
    assert scene.entries(volume) == {HEAD, *(f"killed-{number}" for number in range(4))}
    scene.api.delete(claim)
    for name in ("world", "engine", "controller"):
        scene.kill(name)
    eventually("nothing is left", lambda: gone(scene, volume))


@pytest.mark.slow
@pytest.mark.skipif("E2E_KUBECONFIG" in os.environ, reason="`ullage up` brings the embedded server, no other")
def test_up_has_a_class_for_it_and_keeps_data_over_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("up") / "data"
    size = {"requests": {"storage": "4Mi"}}
    spec = {"storageClassName": "longhorn", "accessModes": ["ReadWriteOnce"], "volumeMode": "Block", "resources": size}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    file = directory.parent / "claim.json"
    file.write_text(json.dumps(claim))
    data = os.urandom(8192)
    for run in range(2):
        up = Up("--data-dir", str(directory), "--port", "0")
        try:
            done = up.kubectl("apply", "-f", str(file))
            assert done.returncode == 0, done.stderr
            eventually("it is bound", lambda up=up: _of_claim(up, "{.status.phase}") == "Bound")  # type: ignore[misc]
            volume = _of_claim(up, "{.spec.volumeName}")
            change = json.dumps({"spec": {"nodeID": "ullage"}})
            up.kubectl("patch", "volumes.longhorn.io", volume, "-n", NAMESPACE, "--type=merge", "-p", change)
            wait = f"wait volumes.longhorn.io/{volume} -n {NAMESPACE} --for=jsonpath={{.status.state}}=attached --timeout=60s"
            done = up.kubectl(*wait.split())
            assert done.returncode == 0, done.stderr
            asyncio.run(_exchange(directory / "engines.sock", volume, data, write=run == 0))
        finally:
            up.end(signal.SIGKILL if run == 0 else signal.SIGTERM)
    assert [one.name for one in (directory / "engines").iterdir() if one.name == volume] == [volume]


def _of_claim(up: Up, path: str) -> str:
    return up.kubectl("get", "pvc", "data", "-o", f"jsonpath={path}").stdout


async def _exchange(socket: Path, volume: str, data: bytes, *, write: bool) -> None:
    """Writes the data, or finds what was written before. A host that has just died attaches its volumes a moment later."""
    async with HostConnection(address_of(socket)) as connection, asyncio.timeout(60):
        while not any(one.name == volume and one.attached for one in await connection.host.list()):  # noqa: ASYNC110  the host does not tell
            await asyncio.sleep(0.1)
        if write:
            await connection.host.write(volume, offset=4096, data=data)
        assert await connection.host.read(volume, offset=4096, length=len(data)) == data
