"""A tenant leaves a volume that is hard to delete. Its PersistentVolume goes, or says how to get out; other tenants' volumes
come and go as they did before."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ullage.files.trees import closing, remove_tree

from .apart import IS_BORROWED
from .test_world import Cluster, World, claim, cluster, eventually, kubeconfig, kubectl, namespace, plane, root, world

__all__ = ["cluster", "kubeconfig", "kubectl", "namespace", "plane", "root", "world"]  # fixtures

pytestmark = [pytest.mark.slow, pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own")]

LEVELS = 3_000
SLOWEST = 30.0  # seconds in which a victim's claim comes and goes, on a busy machine


def deepen(top: Path, levels: int) -> None:
    """Directories in each other, deeper than a path can say, as a process in a pod can make them."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


@contextmanager
def no_remains(path: Path) -> Iterator[None]:
    """Whatever a test that fails leaves of a deep tree: pytest, which removes old directories by recursion, dies of it."""
    try:
        yield
    finally:
        with closing(os.open(path.parent, os.O_RDONLY)) as parent:
            remove_tree(parent, path.name)


def gone(cluster: Cluster, volume: str) -> bool:
    return cluster.kubectl.run("get", "pv", volume).code != 0


def come_and_go(cluster: Cluster, name: str) -> float:
    """What a victim sees: the seconds in which a claim of its own is bound and its volume is gone again."""
    began = time.monotonic()
    cluster.create(claim(name))
    cluster.bound(name)
    volume = cluster.volume(name)
    cluster.kubectl("delete", "pvc", name, "--wait=false")
    eventually("the victim's volume is gone", lambda: gone(cluster, volume))
    return time.monotonic() - began


def test_directories_3000_levels_deep_go_with_their_claim(world: World, cluster: Cluster) -> None:
    quiet = come_and_go(cluster, "before")
    cluster.create(claim("attack"))
    path, volume = cluster.bound("attack"), cluster.volume("attack")
    with no_remains(path):
        deepen(path, LEVELS)
        watch_it_go(world, cluster, volume, quiet=quiet)


def watch_it_go(world: World, cluster: Cluster, volume: str, *, quiet: float) -> None:
    cluster.kubectl("delete", "pvc", "attack", "--wait=false")
    busy = come_and_go(cluster, "victim")
    eventually("the attacker's volume is gone", lambda: gone(cluster, volume))
    print(f"a victim's claim came and went in {quiet:.1f} s before and {busy:.1f} s during the attack")
    assert busy < SLOWEST
    assert (world.directories(), world.notes()) == ([], [])
    assert "Traceback" not in world.log.read_text()
    assert "RecursionError" not in world.log.read_text()


def test_a_link_in_the_place_of_a_volume_is_told_of_and_its_removal_lets_the_volume_go(
    world: World, cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("content")
    cluster.create(claim("attack"))
    path, volume = cluster.bound("attack"), cluster.volume("attack")
    path.rmdir()
    path.symlink_to(tmp_path / "precious")
    cluster.kubectl("delete", "pvc", "attack", "--wait=false")
    eventually("the volume says why it stays", lambda: cluster.get(f"pv/{volume}", ".status.reason") == "VolumeFailedDelete")
    message = cluster.get(f"pv/{volume}", ".status.message")
    assert f"{path}: a symbolic link is in the place of a volume" in message
    assert "remove what is at that path by hand" in message
    assert cluster.phase(f"pv/{volume}") == "Failed"
    told = ("events", "-A", "--for", f"pv/{volume}", "-o", "jsonpath={.items[*].reason}")
    eventually("an event says so too", lambda: "VolumeFailedDelete" in cluster.kubectl(*told).out)
    busy = come_and_go(cluster, "victim")
    print(f"a victim's claim came and went in {busy:.1f} s while the attacker's volume could not be deleted")
    assert busy < SLOWEST
    path.unlink()
    cluster.kubectl("annotate", "pv", volume, "removed=by-hand")  # or it is looked at again after a minute
    eventually("the volume is gone", lambda: gone(cluster, volume))
    assert (tmp_path / "precious" / "file").read_text() == "content"
    assert "Traceback" not in world.log.read_text()
