"""A volume that grows between the admission of its snapshot and the cut: it is paid for, or refused with the numbers.
Directories, volumes of engines, and snapshots of engines that a person asks for; with the real processes, and real blocks."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ullage.quantity import Quantity
from ullage.space.api import HARVESTER_QUOTAS, NAME

from .engine_scene import LONGHORN, MIB, EngineScene, engine_scene
from .snapshot_scene import GA, PROTOTYPE, VOLUMES, Dialect, eventually

pytestmark = pytest.mark.slow  # the processes, and the engines' volumes, take some seconds

Json = dict[str, Any]
TAKES = "ullage.io/takes"
LEDGERS = "/apis/ullage.io/v1alpha1/namespaces/ullage-system/ledgers"
ROOM = {"paid": 8 * MIB, "refused": 3 * MIB}
BEFORE, AFTER = MIB, 4 * MIB  # what the volumes hold when their snapshots are admitted, and when these are cut


@dataclass
class Case:
    """One snapshot, in a namespace of its own."""

    name: str
    scene: EngineScene
    namespace: str
    room: int
    dialect: Dialect | None = None  # none: an engine's own Snapshot
    directory: Path | None = None  # none: a volume of an engine
    volume: str = ""
    admitted: Json = field(default_factory=dict)

    @property
    def path(self) -> str:
        if self.dialect is None:
            return f"{LONGHORN}/snapshots/{self.namespace}"
        return f"{self.dialect.snapshots(self.namespace)}/snap"

    def prepare(self) -> None:
        """A claim with some data, and a limit that counts."""
        limit = {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": self.room}}
        body = {
            "apiVersion": HARVESTER_QUOTAS.api_version,
            "kind": HARVESTER_QUOTAS.kind,
            "metadata": {"name": NAME},
            "spec": limit,
        }
        self.scene.api.create(HARVESTER_QUOTAS.path(self.namespace), body)
        if "directory" in self.name:
            self.directory = self.scene.base.files(self.scene.base.claim(self.namespace, "data", size="64Mi"))
        else:
            _, self.volume = self.scene.claim(self.namespace, "data", volumeMode="Block")
            self.scene.attach(self.volume)
        self.fill(BEFORE)

    def fill(self, amount: int) -> None:
        if self.directory is None:
            self.scene.write(self.volume, 0, os.urandom(amount))
        else:
            (self.directory / "file").write_bytes(os.urandom(amount))

    def admit(self) -> None:
        if self.directory is not None:  # what was measured last
            name = self.scene.api.get(f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/data").obj["spec"][
                "volumeName"
            ]
            used = json.dumps({"bytes": BEFORE, "at": "2026-01-01T00:00:00Z", "by": "measured"})
            self.scene.api.merge(f"{VOLUMES}/{name}", {"metadata": {"annotations": {"ullage.io/used": used}}})
        if self.dialect is None:
            self.scene.ask(self.volume, self.namespace)
        else:
            self._create(self.dialect)
        self.admitted = self.found

    def _create(self, dialect: Dialect) -> None:
        """The webhook may hear of what was measured while it looks at the request, and says then to try again (429)."""
        path, body = dialect.snapshots(self.namespace), dialect.of_claim("snap", "data")
        tried: list[int] = []

        def admitted() -> bool:
            tried.append(self.scene.api.call("POST", path, body).code)
            assert tried[-1] in (201, 429)
            return tried[-1] == 201

        eventually("the snapshot is admitted", admitted)

    @property
    def found(self) -> Json:
        return dict(self.scene.api.get(self.path).obj)

    @property
    def ready(self) -> bool:
        return self.scene.is_ready(self.namespace) if self.dialect is None else self.dialect.ready(self.found)

    @property
    def error(self) -> str:
        if self.dialect is not None:
            return self.dialect.error(self.found)
        reason = self.scene.condition(self.namespace, "Failed")
        return f"{reason}: {self.found['status'].get('error', '')}" if reason else ""

    @property
    def limited(self) -> bool:
        answer = self.scene.api.get(f"{LEDGERS}/ns-{self.namespace}")
        return answer.code == 200 and "snapshots/namespace" in answer.obj["spec"].get("limits", {})

    @property
    def handles(self) -> list[str]:
        """What a storage system has of it."""
        if self.dialect is None:
            return sorted(self.scene.entries(self.volume) & {self.namespace})
        records = self.scene.api.get(self.dialect.records).obj["items"]
        own = [one for one in records if one["spec"]["volumeSnapshotRef"]["namespace"] == self.namespace]
        return [handle for handle in map(self.dialect.handle, own) if handle]


def amount(obj: Json) -> int:
    """What an object is stamped to take, exactly, from its namespace."""
    return Quantity.parse(json.loads(obj["metadata"]["annotations"][TAKES])["snapshots/namespace"]["storage"]).value()


WAYS: dict[str, Dialect | None] = {
    "a directory, GA": GA,
    "a directory, prototype": PROTOTYPE,
    "an engine's volume, GA": GA,
    "an engine's volume, its own Snapshot": None,
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Case]]:
    """All of them are admitted while no controller runs; the volumes grow; then it comes back."""
    with engine_scene(tmp_path_factory.mktemp("growth")) as scene:
        made = {
            (name, end): Case(name, scene, scene.base.namespace(), room, dialect)
            for name, dialect in WAYS.items()
            for end, room in ROOM.items()
        }
        for one in made.values():
            one.prepare()
        eventually("all limits are there", lambda: all(one.limited for one in made.values()))
        scene.end("controller")
        for one in made.values():
            one.admit()
            one.fill(AFTER)
        scene.start("controller")
        yield made


@pytest.mark.parametrize("way", WAYS)
def test_what_was_admitted_is_less_than_what_is_there_by_now(cases: dict[tuple[str, str], Case], way: str) -> None:
    for end in ROOM:
        assert amount(cases[way, end].admitted) <= BEFORE + 64 * 1024


@pytest.mark.parametrize("way", WAYS)
def test_where_there_is_room_the_snapshot_pays_for_what_its_volume_has_when_it_is_cut(
    cases: dict[tuple[str, str], Case], way: str
) -> None:
    case = cases[way, "paid"]
    eventually(f"{way} is ready", lambda: case.ready)
    assert AFTER <= amount(case.found) <= ROOM["paid"]
    assert len(case.handles) == 1


@pytest.mark.parametrize("way", WAYS)
def test_where_there_is_none_it_is_refused_with_the_numbers_and_nothing_is_cut(
    cases: dict[tuple[str, str], Case], way: str
) -> None:
    case = cases[way, "refused"]
    eventually(f"{way} is refused", lambda: case.error)
    assert case.error.startswith("SnapshotSpaceExceeded: a snapshot of the volume takes 4")
    assert "by now, which does not fit: snapshots/namespace storage: asked " in case.error
    assert ", limit 3Mi, over by 1" in case.error
    eventually("it costs nothing", lambda: amount(case.found) == 0)
    assert case.handles == []


# --- written between the measurement and the cut -----------------------------------------------------------------------

ROUNDS = 10
LIMIT = 10 * MIB


def test_a_fast_writer_gets_no_snapshot_that_takes_more_than_the_limit(tmp_path: Path) -> None:
    """A volume of 8Mi gets 20Mi more in one go, some moments after its snapshot was admitted: before the measurement, between
    that and the cut, or after it. Whatever becomes ready is paid for in full, and within the limit."""
    chance, outcomes = random.Random(25), []
    with engine_scene(tmp_path) as scene:
        for _ in range(ROUNDS):
            case = Case("an engine's volume", scene, scene.base.namespace(), LIMIT, GA)
            case.prepare()
            eventually("the limit is there", lambda case=case: case.limited)  # type: ignore[misc]
            case.fill(8 * MIB)
            case.admit()
            time.sleep(chance.random() * 0.4)
            for offset in range(8 * MIB, 28 * MIB, 4 * MIB):
                scene.write(case.volume, offset, os.urandom(4 * MIB))
            eventually("it is ready, or has failed", lambda case=case: case.ready or case.error)  # type: ignore[misc]
            if case.ready:
                taken = sum(entry.size for name, entry in scene.chain(case.volume).items() if name != "volume-head")
                assert taken <= amount(case.found) <= LIMIT, f"{taken} bytes are taken, {amount(case.found)} are paid for"
                outcomes.append("ready")
            else:
                assert case.error.startswith("SnapshotSpaceExceeded: "), case.error
                outcomes.append("after the cut" if scene.entries(case.volume) - {"volume-head"} else "before the cut")
    print(f"outcomes: {Counter(outcomes)}")
    assert set(outcomes) != {"ready"}, "nothing was written before a cut"
