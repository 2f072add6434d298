"""Engines in the composition: Longhorn's kinds are looked after only where it was said that they are ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tests.unit.snapshots.memory_api import MemoryApi
from ullage.app.backends import backends_of
from ullage.app.composition import compose
from ullage.app.configuration.types import Engines
from ullage.app.drivers import NOTHING_CHOSEN, ONE_MACHINE, Chosen, chosen, engines_of
from ullage.app.installer.manifests import manifests
from ullage.app.up.components import ENGINE_SOCKET, configuration_of, system
from ullage.engines.api import KINDS
from ullage.engines.client.connection import HostConnection
from ullage.engines.instances import running_engines
from ullage.kube.client.client import Client
from ullage.kube.slices import Part, Slice, Wiring
from ullage.standalone.world.directories import Directories
from ullage.standalone.world.slice import world

SOCKET = Path("/run/engines.sock")


def engines_in(what: Chosen) -> Slice:
    (found,) = [one for one in compose(what) if one.name == "engines"]
    return found


def test_on_a_cluster_nothing_of_longhorn_is_ours() -> None:
    found = engines_in(NOTHING_CHOSEN)
    assert (found.controllers, found.hooks) == (None, None)
    names = [one.name for one in manifests(compose(NOTHING_CHOSEN))]
    assert not [name for name in names if name.endswith(":engines")]
    brought = [one.name for one in manifests(compose(NOTHING_CHOSEN)) if one.brought]
    assert not [name for name in brought if name.endswith(".longhorn.io")]


def test_on_one_machine_its_kinds_are_brought_along_and_looked_after() -> None:
    wanted = manifests(compose(ONE_MACHINE), foreign=True, world=world(Directories(Path("unused")), engines="unix:///x"))
    names = [one.name for one in wanted if one.brought]
    assert {"volumes.longhorn.io", "engines.longhorn.io", "snapshots.longhorn.io"} <= set(names)
    assert {"ullage:controller:engines", "ullage:webhook:engines"} <= set(names)


def rules_of_world(engines: str | None) -> set[str]:
    wanted = manifests((), world=world(Directories(Path("unused")), engines=engines))
    (role,) = [one.body for one in wanted if one.name == "ullage:world" and one.kind.kind == "ClusterRole"]
    return {resource for rule in role["rules"] for resource in rule["resources"]}


def test_the_world_may_touch_volumes_of_engines_only_where_it_plays_that_part() -> None:
    assert "engines/status" in rules_of_world("unix:///x")
    assert "engines/status" not in rules_of_world(None)


def test_a_socket_says_where_engines_are_and_that_they_are_ours() -> None:
    what = chosen(None, provisions=None, volumes=None, snapshots=None, node=None, alone=False, engines=SOCKET)
    options = engines_of(what)
    assert options.settings.manage
    assert options.engines is not None
    assert engines_of(NOTHING_CHOSEN).engines is None
    assert not engines_of(NOTHING_CHOSEN).settings.manage


def test_without_a_socket_engines_that_are_ours_say_themselves_where_they_are() -> None:
    what = chosen(None, provisions=None, volumes=None, snapshots=None, node=None, alone=False, manage_engines=True)
    assert engines_of(what).settings.manage
    assert engines_of(what).engines is running_engines
    assert engines_in(what).kinds == KINDS


def test_the_host_of_engines_is_up_before_whoever_calls_it() -> None:
    beside = system(lambda: (), program=["ullage"], options=[]).components
    assert [one.role.name for one in beside] == ["engine", "webhook", "controller", "api", "world"]
    directory = Path("/data")
    socket = str(directory / ENGINE_SOCKET)
    commands = {one.role.name: list(one.command(directory, 0)) for one in beside}
    assert commands["engine"][commands["engine"].index("--socket") + 1] == socket
    assert commands["world"][commands["world"].index("--engines") + 1] == socket
    assert configuration_of(directory).spec.engines == Engines(manage=True, socket=socket)


def test_the_world_is_told_how_many_nodes_there_are_to_be() -> None:
    beside = system(lambda: (), program=["ullage"], options=[], nodes=3).components
    command = list(next(one for one in beside if one.role.name == "world").command(Path("/data"), 0))
    assert command[command.index("--nodes") + 1] == "3"


def test_a_process_has_one_way_to_its_engines() -> None:
    """Snapshots ask them for their heads, through the connection of those who look after them."""
    what = replace(ONE_MACHINE, engines=SOCKET)
    wiring = Wiring(cast(Client, MemoryApi()))
    wiring.made(Part(make=lambda given: backends_of(what, given).values(), watches=KINDS))
    wiring.made(Part(make=lambda given: [given.shared(cast(Any, engines_of(what).engines))], watches=KINDS))
    assert sum(isinstance(one, HostConnection) for one in wiring.held) == 1


def test_on_a_longhorn_of_others_no_engine_is_asked() -> None:
    what = Chosen(longhorn=True)
    wiring = Wiring(cast(Client, MemoryApi()))
    wiring.made(Part(make=lambda given: backends_of(what, given).values()))
    assert not wiring.held
