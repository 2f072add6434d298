"""The story of `examples/mysql`, in each dialect: `run.sh` as a person types it, and its data compared once more from here.

On the embedded control plane it runs on `ullage up`; on kube-apiserver, with the same processes beside it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from .apart import IS_BORROWED
from .choice import DISPOSABLE
from .control_plane import KUBECTL
from .snapshot_scene import scene
from .test_up import Up

EXAMPLE = Path(__file__).parents[2] / "examples" / "mysql"
SECONDS = 110

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a person would type: the administrator's kubeconfig, and where volumes and snapshots are on the disk."""

    kubeconfig: Path
    volumes: Path
    snapshots: Path

    @property
    def kubectl(self) -> list[str]:
        return [str(KUBECTL), "--kubeconfig", str(self.kubeconfig)]

    def run(self, *arguments: str) -> str:
        done = subprocess.run([*self.kubectl, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def files(self, claim: str) -> Path:
        volume = self.run("get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}")
        return Path(self.run("get", "pv", volume, "-o", "jsonpath={.spec.hostPath.path}"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("story")
        if DISPOSABLE in os.environ:
            real = stack.enter_context(scene(folder))
            stack.enter_context(real.running(real.webhook(), real.controller(), real.world()))
            yield Place(real.plane.kubeconfig, real.volumes, real.snapshots)
        else:
            up = Up("--data-dir", str(folder / "data"), "--port", "0")
            stack.callback(up.end, signal.SIGTERM)
            yield Place(up.kubeconfig, folder / "data" / "volumes", folder / "data" / "snapshots")


@pytest.fixture
def story(place: Place, tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """The script. Whatever it leaves is taken away again."""
    told: list[str] = []

    def tell(dialect: str, *, kubectl: str = "") -> subprocess.CompletedProcess[str]:
        told.append(dialect)
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "WORK": str(tmp_path), "TIMEOUT": "60s"}
        environ["KUBECTL"] = kubectl or shlex.join(place.kubectl)
        command = ["sh", str(EXAMPLE / "run.sh"), dialect]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environ)

    yield tell
    for dialect in told:
        place.run("delete", "-f", str(EXAMPLE / dialect), "--ignore-not-found", "--timeout=60s")


def contents(root: Path) -> dict[str, bytes | None]:
    """Every file with its bytes, every directory with none."""
    return {str(one.relative_to(root)): one.read_bytes() if one.is_file() else None for one in sorted(root.rglob("*"))}


@pytest.mark.parametrize("dialect", ["prototype", "ga"])
def test_the_story_of_the_database(
    place: Place, story: Callable[..., subprocess.CompletedProcess[str]], dialect: str, tmp_path: Path
) -> None:
    done = story(dialect)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("byte by byte: ") == 5
    before, after = contents(tmp_path / "before"), contents(tmp_path / "after")
    assert before["ibdata1"] != after["ibdata1"]
    assert before.keys() - after.keys() == {"wp_db/drafts.ibd"}
    assert after.keys() - before.keys() == {"wp_db/comments.ibd"}
    assert contents(place.files("mysql-backups") / "data") == before
    assert contents(place.files("claim-mysql")) == after
    assert list(place.snapshots.glob("snapshot-*")) == [], "the snapshot's own files are gone too"
    kept = {place.files(claim).name for claim in ("claim-mysql", "mysql-backups")}
    assert {one.name for one in place.volumes.iterdir() if one.name[0] != "."} == kept


def test_the_script_notices_a_byte_that_differs(
    story: Callable[..., subprocess.CompletedProcess[str]], place: Place, tmp_path: Path
) -> None:
    """A kubectl that spoils a file of the restored volume once its claim is bound."""
    spoiler = tmp_path / "kubectl"
    spoiler.write_text(
        f"""#!/bin/sh
{shlex.join(place.kubectl)} "$@" || exit
case "$*" in *wait*pvc/snapshot-data-claim*)
    for file in {shlex.quote(str(place.volumes))}/*/wp_db/drafts.ibd; do printf x >>"$file"; done ;;
esac
"""
    )
    spoiler.chmod(0o700)
    done = story("ga", kubectl=str(spoiler))
    assert done.returncode == 1
    assert "FAILED: snapshot-data-claim has the data of the moment of the snapshot" in done.stderr


def test_the_manifests_are_those_of_the_story() -> None:
    """Both dialects tell the same story: they differ in nothing but the snapshot, and how a claim names it."""
    for name in ("1-database.yaml", "4-sync.yaml"):
        assert (EXAMPLE / "ga" / name).read_bytes() == (EXAMPLE / "prototype" / name).read_bytes()
    restores = [yaml.safe_load((EXAMPLE / dialect / "3-restore.yaml").read_text()) for dialect in ("ga", "prototype")]
    del restores[0]["spec"]["dataSource"]
    assert restores[1]["metadata"].pop("annotations") == {"snapshot.alpha.kubernetes.io/snapshot": "mysql-snapshot"}
    assert restores[0] == restores[1]


def claim_from(namespace: str) -> str:
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap", "namespace": namespace}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "dataSourceRef": source}
    meta = {"name": "copy", "namespace": "default"}
    return json.dumps({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})


def test_a_claim_with_a_snapshot_of_another_namespace_is_refused_and_not_left_empty(place: Place) -> None:
    """API servers drop such a source without a word."""
    command = [*place.kubectl, "create", "-f", "-"]
    done = subprocess.run(
        command, input=claim_from("kube-system"), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 1
    assert "the claim is to be filled from VolumeSnapshot kube-system/snap, and this API server drops" in done.stderr


def test_a_claim_that_names_its_own_namespace_keeps_its_source(place: Place) -> None:
    command = [*place.kubectl, "create", "-f", "-"]
    subprocess.run(command, input=claim_from("default"), capture_output=True, text=True, timeout=SECONDS, check=True)
    try:
        assert place.run("get", "pvc", "copy", "-o", "jsonpath={.spec.dataSourceRef.name}") == "snap"
    finally:
        place.run("delete", "pvc", "copy")
