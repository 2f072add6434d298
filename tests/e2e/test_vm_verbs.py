"""`ullage vm start|stop|restart|pause|unpause|migrate` where there is little room: what is refused is told with all numbers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .apart import IS_BORROWED
from .engine_scene import eventually
from .headroom_scene import HeadroomScene, Tenant, headroom_scene
from .test_snapshot_cli import environment

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]
NO_ROOM = "VM available resources are insufficient"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadroomScene]:
    with headroom_scene(tmp_path_factory.mktemp("verbs")) as made:
        yield made


class Person:
    """Whoever types commands about the VMs of a namespace."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self._environment = environment(Path(tenant.scene.base.plane.kubeconfig))

    def runs(self, verb: str, *names: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        targets = [f"{self.tenant.namespace}/{name}" for name in names]
        command = [sys.executable, "-m", "ullage", "vm", verb, *targets, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=150, env=self._environment, check=False)

    def does(self, verb: str, *names: str) -> list[str]:
        """Waits until it has happened; the lines that were printed."""
        done = self.runs(verb, *names, options=("--wait", "--timeout", "120s"))
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def is_refused(self, verb: str, *names: str) -> str:
        done = self.runs(verb, *names)
        assert done.returncode == 1, done.stdout
        return done.stderr


def test_what_does_not_fit_is_refused_with_its_numbers_and_everything_else_works(scene: HeadroomScene) -> None:
    tenant = Tenant(scene)
    person, place = Person(tenant), tenant.namespace
    tenant.run("a", "b")
    for name, strategy in (("halted", "Halted"), ("manual", "Manual")):
        tenant.ask_machine(name, strategy)
        tenant.until("Stopped", name)

    for name in ("halted", "manual"):
        said = person.is_refused("start", name)
        assert said.startswith("ullage: ")
        assert said.count(NO_ROOM) == 1
        for resource, asked, share in (("cpu", "1 core", "2 cores"), ("memory", "1.2Gi", "2.5Gi")):
            assert f"{resource}: asked {asked}, used " in said
            assert f", share {share}" in said
        assert f"-n {place}" in said  # the next step is a command
        assert tenant.word(name) == "Stopped"

    assert person.does("pause", "a")[-1] == f"{place}/a: Paused"
    assert NO_ROOM in person.is_refused("start", "halted")
    assert person.does("unpause", "a")[-1] == f"{place}/a: Running"

    before = tenant.uid("a")
    assert person.does("restart", "a")[-1] == f"{place}/a: Running"
    assert tenant.uid("a") != before

    assert person.does("stop", "b")[-1] == f"{place}/b: Stopped"
    assert person.does("start", "manual")[-1] == f"{place}/manual: Running"
    assert NO_ROOM in person.is_refused("start", "b", "halted")
    assert person.does("stop", "manual")[-1] == f"{place}/manual: Stopped"
    assert person.does("start", "b")[-1] == f"{place}/b: Running"
    assert person.is_refused("start", "b") == f"ullage: VM {place}/b runs already\n"


def test_a_vm_moves_and_one_that_moves_does_not_move_twice(scene: HeadroomScene) -> None:
    tenant = Tenant(scene)
    person, place = Person(tenant), tenant.namespace
    tenant.run("a", "b")
    before, uid = tenant.node_of("a"), tenant.uid("a")
    lines = person.does("migrate", "a")
    assert lines[0].startswith(
        "virtualmachine.kubevirt.io/a is moving to another node: virtualmachineinstancemigration.kubevirt.io/a-"
    )
    assert lines[-1].startswith(f"{place}/a: Succeeded, runs on {tenant.node_of('a')} (")
    assert tenant.node_of("a") != before
    assert tenant.uid("a") == uid

    tenant.takes("b", "never")
    assert person.runs("migrate", "b").returncode == 0
    (moving,) = tenant.unfinished()
    said = person.is_refused("migrate", "b")
    assert said.startswith(f"ullage: VM {place}/b is moving already, by {moving}")
    scene.kubectl.run("delete", "vmim", moving, "-n", place)
    tenant.until("Running", "b")
    assert NO_ROOM not in person.is_refused("migrate", "none")


def test_where_a_quarter_is_kept_the_second_vm_moves_after_the_first(scene: HeadroomScene) -> None:
    tenant = Tenant(scene, percent=25)
    person, place = Person(tenant), tenant.namespace
    tenant.run("a", "b")
    tenant.takes("a", "never")
    assert person.runs("migrate", "a").returncode == 0
    (moving,) = tenant.unfinished()
    for options in ((), ("--dry-run",)):
        done = person.runs("migrate", "b", options=options)
        assert done.returncode == 1, done.stdout
        assert done.stderr.count("maintenance resource is insufficient") == 1
        for resource, asked, share in (("cpu", "1 core", "1 core"), ("memory", "1.2Gi", "1.25Gi")):
            assert f"{resource}: asked {asked}, " in done.stderr, done.stderr
            assert f", share {share}" in done.stderr
    assert tenant.unfinished() == [moving]

    scene.kubectl.run("delete", "vmim", moving, "-n", place)
    eventually("the reserve is free", lambda: not tenant.unfinished())
    eventually("the second one moves", lambda: person.runs("migrate", "b").returncode == 0)
    eventually("it has moved", lambda: not tenant.unfinished())
    assert tenant.running() == ["a", "b"]
