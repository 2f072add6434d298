"""A tenant who may edit VolumeSnapshots takes their finalizers off and deletes them: neither the data nor the record stays for
ever, with or without the namespace, and another tenant's snapshots are taken and go as they did before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.snapshots.controllers.snapshot.bind.orphans import REQUEST_SECONDS

from .apart import IS_BORROWED
from .snapshot_scene import BOTH, GA, SECONDS, Dialect, Scene, eventually, scene
from .test_snapshot_security import Team

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_BORROWED, reason="the cluster's own snapshot controller would answer too"),
]

SNAPSHOTS = 3
SLOWEST = 60.0  # seconds in which a victim's snapshot is taken and goes, on a busy machine
GONE = REQUEST_SECONDS + SECONDS


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Without a controller."""
    with scene(tmp_path_factory.mktemp("hostile")) as made, made.running(made.world()):
        yield made


def strip_and_delete(team: Team, path: str) -> None:
    """As a tenant with the role edit may."""
    team.scene.api.merge(path, {"metadata": {"finalizers": None}})
    team.scene.api.delete(path)
    assert team.gone(path)


def come_and_go(team: Team, dialect: Dialect) -> float:
    """What a victim sees: the seconds in which a snapshot is ready and gone again."""
    began = time.monotonic()
    path, record = team.taken(dialect, "victim")
    team.delete(path)
    assert team.gone(record)
    return time.monotonic() - began


@pytest.mark.parametrize("with_namespace", [False, True], ids=["and stays", "and deletes the namespace"])
def test_data_whose_finalizers_a_tenant_takes_off_goes_as_its_policy_says(place: Scene, with_namespace: bool) -> None:
    """While the controller is restarted, so that it puts no finalizer on again in time."""
    victim, attacker = Team(place, place.namespace()), Team(place, place.namespace())
    taken: dict[str, str] = {}
    handles = []
    with place.running(place.controller()):
        victim.data()
        attacker.data()
        quiet = come_and_go(victim, GA)
        for dialect in BOTH:
            for number in range(SNAPSHOTS):
                path, record = attacker.taken(dialect, f"{dialect.name}-{number}")
                taken[path] = record
                handles.append(Path(dialect.handle(attacker.get(record))))
    for path in taken:
        strip_and_delete(attacker, path)
    if with_namespace:
        place.api.delete(f"/api/v1/namespaces/{attacker.namespace}")
    with place.running(place.controller()):
        began = time.monotonic()
        busy = come_and_go(victim, GA)
        assert busy < SLOWEST
        assert all("deletionTimestamp" not in attacker.get(record)["metadata"] for record in taken.values())
        assert all(handle.exists() for handle in handles)
        eventually("all records are gone", lambda: all(map(attacker.gone, taken.values())), seconds=GONE)
        assert not any(handle.exists() for handle in handles), "the data goes before the record"
        waited = time.monotonic() - began
    print(f"the data of {len(taken)} snapshots was gone after {waited:.0f} s; a victim waited {quiet:.1f}, then {busy:.1f} s")
