"""VolumeSnapshots of volumes of engines, and `ullage volume`, as a person has them: data is written, kept, restored into
another claim and compared byte by byte."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from .apart import IS_BORROWED
from .engine_scene import MIB, SIZE, EngineScene, engine_scene, eventually
from .test_snapshot_cli import environment

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.timeout(240),
]
SECONDS = 120.0


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineScene]:
    with engine_scene(tmp_path_factory.mktemp("commands")) as made:
        yield made


def ran(scene: EngineScene, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ullage", *arguments]
    env = environment(Path(scene.base.plane.kubeconfig))
    return subprocess.run(command, capture_output=True, timeout=SECONDS, env=env, check=False)


def called(scene: EngineScene, *arguments: str) -> bytes:
    done = ran(scene, *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def left(scene: EngineScene, volume: str) -> bool:
    objects = [scene.get("volumes", volume), scene.get("engines", f"{volume}-e-0"), *scene.snapshots(volume)]
    return any(objects) or volume in scene.volumes_on_host()


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["ga", "prototype"])
def test_a_restored_claim_has_what_was_there_byte_by_byte(scene: EngineScene, dialect: str, tmp_path: Path) -> None:
    namespace = scene.base.namespace()
    where = ("-n", namespace, "--dialect", dialect)
    claim, volume = scene.claim(namespace, "data", volumeMode="Block")
    image = tmp_path / "image"
    image.write_bytes(os.urandom(5 * MIB + 123))
    called(scene, "volume", "write", f"{namespace}/data", "--offset", "1Mi", "--from", str(image))
    before = called(scene, "volume", "read", f"{namespace}/data")
    assert before == bytes(MIB) + image.read_bytes() + bytes(SIZE - MIB - image.stat().st_size)

    called(scene, "snapshot", "create", "before", "--pvc", "data", "--wait", "--timeout", "60s", *where)
    (name,) = scene.snapshots(volume)
    called(scene, "volume", "write", f"{namespace}/data", "--length", "8Mi", "--zero")
    called(scene, "snapshot", "restore", "before", "--to", "again", "--wait", "--timeout", "60s", *where)
    assert called(scene, "volume", "read", f"{namespace}/again") == before
    assert called(scene, "volume", "read", f"{namespace}/data") == bytes(SIZE)
    eventually("nobody is held", lambda: scene.state(volume) == "detached" and not scene.tickets(volume))

    shown = json.loads(called(scene, "tree", "pvc/data", "-n", namespace, "-o", "json"))
    assert [(one["name"], one["head"]) for one in shown["snapshots"]] == [(name, False), ("volume-head", True)]
    assert shown["headBytes"] == 8 * MIB
    called(scene, "snapshot", "delete", "before", "--wait", "--timeout", "60s", *where)
    assert "removed" in called(scene, "volume", "tree", f"{namespace}/data").decode()

    again = claim.replace("/data", "/again")
    copy = str(scene.api.get(again).obj["spec"]["volumeName"])
    for path in (claim, again):
        scene.api.delete(path)
    for one in (volume, copy):
        eventually(f"nothing of {one} is left", partial(lambda name: not left(scene, name), one))


def test_random_data_is_told_by_its_digest_and_volumes_are_listed(scene: EngineScene) -> None:
    namespace = scene.base.namespace()
    claim, volume = scene.claim(namespace, "data", volumeMode="Block")
    said = called(scene, "volume", "write", volume, "--offset", "4Ki", "--length", "4Mi", "--random").decode()
    data = called(scene, "volume", "read", volume, "--offset", "4Ki", "--length", "4Mi")
    assert said == f"4Mi written at offset 4096 of volume {volume}, sha256 {hashlib.sha256(data).hexdigest()}\n"
    rows = called(scene, "volume", "list", "-n", namespace).decode().splitlines()
    assert [row.split()[:2] for row in rows] == [["VOLUME", "CLAIM"], [volume, f"{namespace}/data"]]
    scene.api.delete(claim)
    eventually("nothing is left", lambda: not left(scene, volume))


def test_claims_of_other_drivers_have_no_engine(scene: EngineScene) -> None:
    namespace = scene.base.namespace()
    path = scene.base.claim(namespace, "files")
    eventually("it is bound", lambda: scene.api.get(path).obj.get("status", {}).get("phase") == "Bound")
    done = ran(scene, "tree", "pvc/files", "-n", namespace)
    text = f"ullage: claim {namespace}/files has a volume of no CSI driver; only those of driver.longhorn.io have engines\n"
    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", text)
    scene.api.delete(path)


@pytest.mark.slow
def test_hooks_run_around_the_cut_inside_an_engine(scene: EngineScene) -> None:
    """They write to another claim of the pod, which is a directory: nothing is mounted here of volumes of engines."""
    namespace, api = scene.base.namespace(), scene.api
    _, volume = scene.claim(namespace, "data")
    log = scene.base.claim(namespace, "log")
    notes = {
        f"{when}.hook.snapshot.ullage.io/command": json.dumps(["sh", "-c", f"echo {when} >> /log/log"])
        for when in ("pre", "post")
    }
    names = ("data", "log")
    container = {"name": "db", "image": "db", "volumeMounts": [{"name": one, "mountPath": f"/{one}"} for one in names]}
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in names]
    body = {"metadata": {"name": "db", "annotations": notes}, "spec": {"containers": [container], "volumes": volumes}}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(pods, {"apiVersion": "v1", "kind": "Pod", **body})
    eventually("it runs", lambda: api.get(f"{pods}/db").obj.get("status", {}).get("phase") == "Running")
    called(scene, "snapshot", "create", "quiet", "--pvc", "data", "--wait", "--timeout", "60s", "-n", namespace)
    runs = "/apis/ullage.io/v1alpha1/hookruns"
    eventually("nothing is left of hooks", lambda: not api.get(runs).obj["items"])
    assert (scene.base.files(log) / "log").read_text().split() == ["pre", "post"]
    assert len(scene.snapshots(volume)) == 1
