"""A claim is brought back to a snapshot and that is undone, over and over, while the controller is killed at random moments.

Real processes, real files: a hostPath volume whose directory changes places, and a CSI driver whose claim is made again. At
every look the claim has the old bytes or the new ones, all of them; in the end nothing is left but what it has.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.csi_driver.running import NAME, RunningDriver

from .apart import IS_BORROWED
from .forked_controller import ForkedController
from .snapshot_scene import GA, VOLUMES, Json, Scene, csi_volume, eventually, scene

SEED = 20261118
ROUNDS = 2
RESTORES = "/apis/ullage.io/v1alpha1/namespaces/{}/snapshotrestores"
OLD = {f"file-{number}": f"old {number}".encode() * 500 for number in range(40)}
NEW = {f"file-{number}": f"as it was {number}".encode() * 500 for number in range(30)}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_BORROWED, reason="what is killed here would be the cluster's own snapshot controller"),
    pytest.mark.timeout(240),
]


def write(top: Path, files: dict[str, bytes]) -> None:
    for one in top.iterdir():
        one.unlink()
    for name, content in files.items():
        (top / name).write_bytes(content)


def read(top: Path) -> dict[str, bytes] | None:
    """As a pod does that has mounted it: of one directory, whatever has its name a moment later. None: it went meanwhile."""
    try:
        mounted = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        found = {}
        for name in os.listdir(mounted):
            with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=mounted), "rb") as file:
                found[name] = file.read()
        return found if os.fstat(mounted).st_ino == top.stat().st_ino else None
    except FileNotFoundError:
        return None
    finally:
        os.close(mounted)


@dataclass
class Stage:
    """One claim, and where its bytes are now."""

    scene: Scene
    namespace: str
    claim: str
    files: Callable[[], Path | None]
    leftovers: Callable[[], list[str]]
    options: tuple[str, ...] = ()
    login: tuple[str, ...] = ()  # of the controller; empty: its service account

    @property
    def restores(self) -> str:
        return RESTORES.format(self.namespace)

    def ask(self, name: str) -> None:
        spec = {"claimName": "data", "source": {"name": "snap"}}
        body = {"apiVersion": "ullage.io/v1alpha1", "kind": "SnapshotRestore", "metadata": {"name": name}, "spec": spec}
        self.scene.api.create(self.restores, body)

    def status(self, name: str) -> Json:
        found: Json = self.scene.api.get(f"{self.restores}/{name}").obj.get("status") or {}
        return found

    def look(self) -> dict[str, bytes] | None:
        """What a pod would find; None while the claim has no volume."""
        top = self.files()
        return read(top) if top is not None else None


def bound_volume(stage: Scene, claim: str) -> Json | None:
    answer = stage.api.get(claim)
    if answer.code != 200 or (answer.obj.get("status") or {}).get("phase") != "Bound":
        return None
    found = answer.obj
    volume = stage.api.get(f"{VOLUMES}/{found['spec']['volumeName']}").obj
    mine = (volume.get("spec") or {}).get("claimRef", {}).get("uid") == found["metadata"]["uid"]
    return volume if mine else None


def directories(stage: Scene, _: ExitStack) -> Stage:
    namespace = stage.namespace()
    claim = stage.claim(namespace, "data")

    def files() -> Path | None:
        volume = bound_volume(stage, claim)
        return Path(volume["spec"]["hostPath"]["path"]) if volume is not None else None

    def leftovers() -> list[str]:
        area = stage.volumes / ".in-place"
        return [one.name for one in area.iterdir() if one.name not in (".locks", ".restored")] if area.exists() else []

    eventually("the claim is bound", files)
    return Stage(stage, namespace, claim, files, leftovers)


def csi_claims(stage: Scene, stack: ExitStack) -> Stage:
    namespace = stage.namespace()
    directory = stage.directory / namespace  # one for each driver: it holds its volumes
    directory.mkdir()
    driver = RunningDriver(directory)
    driver.start()
    stack.callback(driver.kill)
    source = {"csi": {"driver": NAME, "volumeHandle": csi_volume(driver, namespace)}}
    claim = stage.bound_claim(namespace, "data", source=source, storage_class="csi")

    def files() -> Path | None:
        volume = bound_volume(stage, claim)
        return driver.data(volume["spec"]["csi"]["volumeHandle"]) if volume is not None else None

    def leftovers() -> list[str]:
        claims = stage.api.get(claim.rpartition("/")[0]).obj["items"]
        marked = [one for one in stage.api.get(VOLUMES).obj["items"] if "ullage.io/in-place-restore" in str(one["metadata"])]
        return [one["metadata"]["name"] for one in (*claims, *marked) if one["metadata"]["name"] != "data"]

    return Stage(stage, namespace, claim, files, leftovers, ("--driver", f"{NAME}={driver.path}", "--provision", NAME))


def csi_claims_of_an_administrator(stage: Scene, stack: ExitStack) -> Stage:
    return replace(csi_claims(stage, stack), login=tuple(stage.administrator()))


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("restores")) as made, made.running(made.world(), made.webhook()):
        made.storage_class("csi", NAME)
        made.snapshot_class("csi", NAME)
        yield made


@pytest.fixture(
    params=[directories, csi_claims, csi_claims_of_an_administrator],
    ids=["hostpath", "csi", "csi, the controller with an administrator's kubeconfig"],
)
def stage(request: pytest.FixtureRequest, ground: Scene) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield request.param(ground, stack)


def killed_until(stage: Stage, controller: ForkedController, done: Callable[[], bool], chance: random.Random) -> int:
    """Lets the controller work for a moment and kills it, until something holds. At the end it runs. How often it was."""
    kills, deadline = 0, time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline, stage.scene.api.get(stage.restores).obj
        controller.start()
        end = time.monotonic() + (chance.uniform(0.05, 1.2) if kills < 3 else 20)
        while time.monotonic() < end:
            assert stage.look() in (None, OLD, NEW), "a mix of the old bytes and the new"
            if done():
                return kills
            time.sleep(0.02)
        controller.kill()
        kills += 1


def test_killed_at_any_moment_the_claim_has_the_old_bytes_or_the_new(stage: Stage) -> None:
    chance, kills, top = random.Random(SEED), 0, stage.files()
    assert top is not None
    log = stage.scene.directory / "controller.log"
    with ForkedController(*stage.scene.controller(*stage.options, login=stage.login), log=log) as controller:
        controller.start()
        write(top, NEW)
        snapshot = f"{GA.snapshots(stage.namespace)}"
        stage.scene.api.create(snapshot, GA.of_claim("snap", "data"))
        eventually("the snapshot is ready", lambda: GA.ready(stage.scene.api.get(f"{snapshot}/snap").obj))
        write(top, OLD)
        for number in range(ROUNDS):
            name = f"back-{number}"
            controller.kill()
            stage.ask(name)
            kills += killed_until(stage, controller, lambda name=name: stage.status(name).get("phase") == "Complete", chance)  # type: ignore[misc]
            assert stage.look() == NEW
            controller.kill()
            stage.scene.api.merge(f"{stage.restores}/{name}", {"spec": {"undo": True}})
            kills += killed_until(stage, controller, lambda name=name: bool(stage.status(name).get("settled")), chance)  # type: ignore[misc]
            assert (stage.look(), stage.status(name)["phase"]) == (OLD, "Undone")
        eventually("nothing is left", lambda: not stage.leftovers())
    assert kills >= ROUNDS
