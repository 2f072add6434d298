"""Snapshot space of volumes with engines: real blocks, the real processes, and what the engine says right before the cut."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.ledger.accounts import accounts
from ullage.ledger.api import LEDGERS
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.codec import book_of
from ullage.space.accounts import NAMESPACE_CELL, ledger_name, stamp_for
from ullage.space.api import NAME as QUOTA
from ullage.space.api import QUOTAS
from ullage.times import read_time

from .apart import IS_BORROWED
from .engine_scene import LONGHORN, MIB, EngineScene, engine_scene, eventually
from .snapshot_scene import BOTH, Dialect, Json

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="the cluster's own webhooks and quotas would answer too"),
    pytest.mark.slow,  # the processes, and the engines' volumes, take some seconds
]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineScene]:
    with engine_scene(tmp_path_factory.mktemp("space")) as found:
        yield found


@dataclass(frozen=True, slots=True)
class Team:
    """A namespace with one claim, whose volume is attached and holds a MiB."""

    scene: EngineScene
    namespace: str
    volume: str

    def limit(self, amount: int) -> None:
        """With a quota; it holds when the ledger has it."""
        limit = {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": amount}}
        body = {"apiVersion": QUOTAS.api_version, "kind": QUOTAS.kind, "metadata": {"name": QUOTA}, "spec": limit}
        self.scene.api.create(QUOTAS.path(self.namespace), body)
        ledger = LEDGERS.path(LEDGER_NAMESPACE, ledger_name(self.namespace))
        eventually("the limit holds", lambda: self.scene.api.get(ledger).obj.get("spec", {}).get("limits"))

    def booked(self) -> int:
        """What the ledger says is used or reserved, in bytes."""

        async def read() -> int:
            async with self._client() as client:
                found = await client.get(LEDGERS, ledger_name(self.namespace), LEDGER_NAMESPACE)
            now = read_time("2026-01-01T00:00:00Z")
            assert now is not None
            listed = {(one.name, one.resource): one for one in accounts(book_of(found, now=now))}
            account = listed[NAMESPACE_CELL]
            return (account.used + account.reserved).value()

        return asyncio.run(read())

    def snapshot(self, dialect: Dialect, name: str) -> Json:
        return self.scene.api.get(f"{dialect.snapshots(self.namespace)}/{name}").obj

    def _client(self) -> Client:
        return Client(Config.load(self.scene.base.plane.kubeconfig, environ={}))


@pytest.fixture
def team(scene: EngineScene) -> Team:
    namespace = scene.base.namespace()
    _, volume = scene.claim(namespace, "disk", volumeMode="Block")
    scene.pod(namespace, "disk")
    eventually("the volume is attached", lambda: scene.engine_state(volume) == "running")
    scene.write(volume, 0, os.urandom(MIB))
    return Team(scene, namespace, volume)


@pytest.mark.parametrize("dialect", BOTH, ids=lambda one: str(one.name))
def test_exactly_what_the_engine_has_is_paid_for_once(team: Team, dialect: Dialect) -> None:
    team.limit(MIB)
    team.scene.api.create(dialect.snapshots(team.namespace), dialect.of_claim("first", "disk"))
    eventually("it is cut and ready", lambda: dialect.ready(team.snapshot(dialect, "first")))
    found = team.snapshot(dialect, "first")["metadata"]
    assert found["annotations"]["ullage.io/takes"] == str(stamp_for(MIB)), "it was measured before the cut"
    behind = team.scene.get("snapshots", f"snapshot-{found['uid']}")
    assert behind is not None
    marks = behind["metadata"]["annotations"]
    assert (marks["ullage.io/takes"], marks["ullage.io/charged-namespace"]) == ("{}", team.namespace)
    assert team.booked() == MIB


def test_a_snapshot_of_the_engine_itself_is_paid_for_by_the_claims_namespace(team: Team) -> None:
    team.limit(MIB)
    body = {"apiVersion": "longhorn.io/v1beta2", "kind": "Snapshot", "spec": {"volume": team.volume}}
    name = f"{team.namespace}-direct"
    asked = team.scene.api.call("POST", f"{LONGHORN}/snapshots", {**body, "metadata": {"name": name}})
    assert asked.code == 201, asked.raw
    eventually("it is ready", lambda: team.scene.is_ready(name))
    found = team.scene.get("snapshots", name)
    assert found is not None
    assert found["metadata"]["annotations"]["ullage.io/takes"] == str(stamp_for(MIB))
    assert found["metadata"]["annotations"]["ullage.io/charged-namespace"] == team.namespace
    assert team.booked() == MIB
