"""Ullage on a real control plane whose kube-controller-manager binds claims, with a CSI driver of ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.csi_driver.running import NAME, RunningDriver
from tests.e2e.built import built
from tests.e2e.real import RealControlPlane
from tests.e2e.snapshot_scene import Scene, csi_volume, scene_on
from tools.peers.kube.build import programs

BINDER = "persistentvolume-binder-controller"
CLASS = "csi"  # of storage and of snapshots


@contextlib.contextmanager
def scene_with_binder() -> Iterator[Scene]:
    plane = RealControlPlane(built(programs), controllers=[BINDER])
    plane.start()
    try:
        with scene_on(plane.control_plane()) as made:
            made.storage_class(CLASS, NAME)
            made.snapshot_class(CLASS, NAME)
            yield made
    finally:
        plane.stop()


@contextlib.contextmanager
def driver_of(scene: Scene) -> Iterator[RunningDriver]:
    directory = scene.directory / "csi"
    directory.mkdir()
    driver = RunningDriver(directory)
    driver.start()
    try:
        yield driver
    finally:
        driver.kill()


def written_claim(scene: Scene, driver: RunningDriver, namespace: str, *, content: bytes) -> None:
    """A bound claim `data` with a file `page` in its volume."""
    handle = csi_volume(driver, namespace)
    scene.bound_claim(namespace, "data", source={"csi": {"driver": NAME, "volumeHandle": handle}}, storage_class=CLASS)
    (driver.data(handle) / "page").write_bytes(content)
