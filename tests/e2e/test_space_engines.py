"""Snapshot space of volumes with engines: real blocks, the real processes, and what the engine says right before the cut."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ullage.engines.chain import HEAD
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.ledger.accounts import accounts
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.codec import book_of
from ullage.ledger.keys import ledger_name
from ullage.space.accounts import NAMESPACE_CELL, stamp_for
from ullage.space.api import HARVESTER_QUOTAS
from ullage.space.api import NAME as QUOTA
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
        body = {
            "apiVersion": HARVESTER_QUOTAS.api_version,
            "kind": HARVESTER_QUOTAS.kind,
            "metadata": {"name": QUOTA},
            "spec": limit,
        }
        self.scene.api.create(HARVESTER_QUOTAS.path(self.namespace), body)
        ledger = LEDGERS.path(LEDGER_NAMESPACE, ledger_name(self.namespace))
        eventually("the limit holds", lambda: self.scene.api.get(ledger).obj.get("spec", {}).get("limits"))

    def booked(self) -> int:
        """What the ledger says is used or reserved, in bytes."""

        async def read() -> int:
            async with self._client() as client:
                return _booked(await client.get(LEDGERS, ledger_name(self.namespace), LEDGER_NAMESPACE))

        return asyncio.run(read())

    async def watch(self, seen: list[int], stop: asyncio.Event) -> None:
        """Notes what is used or reserved in every version of the ledger, from now on."""
        async with self._client() as client:
            name = ledger_name(self.namespace)
            found = await client.get(LEDGERS, name, LEDGER_NAMESPACE)
            seen.append(_booked(found))
            events = client.watch(LEDGERS, LEDGER_NAMESPACE, resource_version=found.metadata.resource_version)
            ended = asyncio.create_task(stop.wait())
            while not ended.done():
                event = asyncio.ensure_future(anext(events))
                await asyncio.wait((event, ended), return_when=asyncio.FIRST_COMPLETED)
                if not event.done():
                    event.cancel()
                elif event.result().object.metadata.name == name:
                    seen.append(_booked(event.result().object))

    def truth(self) -> int:
        """What the snapshots that are there and not removed take, as the engine says itself."""
        return sum(one.size for name, one in self.scene.chain(self.volume).items() if name != HEAD and not one.removed)

    def snapshot(self, dialect: Dialect, name: str) -> Json:
        return self.scene.api.get(f"{dialect.snapshots(self.namespace)}/{name}").obj

    def _client(self) -> Client:
        return Client(Config.load(self.scene.base.plane.kubeconfig, environ={}))


def _booked(ledger: Ledger) -> int:
    now = read_time("2026-01-01T00:00:00Z")
    assert now is not None
    listed = {(one.name, one.resource): one for one in accounts(book_of(ledger, now=now))}
    account = listed[NAMESPACE_CELL]
    return (account.used + account.reserved).value()


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


@pytest.mark.parametrize("dialect", BOTH, ids=lambda one: str(one.name))
def test_a_purge_moves_bytes_into_the_child_and_usage_never_dips(team: Team, dialect: Dialect) -> None:
    """Of three snapshots with a MiB each the first two are deleted: all that they had is in the third then, but for what that
    one has anew."""
    team.limit(8 * MIB)
    scene, path = team.scene, dialect.snapshots(team.namespace)
    for number, name in enumerate(("first", "second", "third")):
        scene.write(team.volume, (0, 4 * MIB, 4 * MIB)[number], os.urandom(MIB))
        scene.api.create(path, dialect.of_claim(name, "disk"))
        eventually("it is cut and ready", lambda name=name: dialect.ready(team.snapshot(dialect, name)))  # type: ignore[misc]
    assert team.truth() == 3 * MIB
    eventually("all are paid for", lambda: team.booked() == 3 * MIB)

    def delete(name: str, left: int) -> None:
        scene.api.delete(f"{path}/{name}")
        eventually("it is gone", lambda: scene.api.get(f"{path}/{name}").code == 404)
        eventually("what is there is booked", lambda: team.truth() == left == team.booked())

    async def watched() -> tuple[list[int], list[int]]:
        first, second, stop = list[int](), list[int](), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(team.watch(first, stop))
            await asyncio.to_thread(delete, "first", 3 * MIB)
            group.create_task(team.watch(second, stop))
            await asyncio.to_thread(delete, "second", 2 * MIB)
            stop.set()
        return first, second

    both, second = asyncio.run(watched())
    first = both[: len(both) - len(second) + 1]
    assert min(first) == 3 * MIB, f"the first one's bytes are in the second: {first}"
    assert max(both) <= 6 * MIB, f"what moves is booked twice for a moment: {both}"
    assert min(second) == second[-1] == 2 * MIB, f"the third has all that the second had: {second}"
