"""MachineSets against an API in memory: Machines that were made and are not seen yet, and refusals."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tests.unit.standalone.world.fake_api import FakeApi, FakeCache, Told
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Requeue
from ullage.kube.errors import ApiError, Forbidden, Unavailable
from ullage.kube.kinds import Meta
from ullage.projects.api.machines import (
    MACHINE_SETS,
    MACHINES,
    Machine,
    MachineSet,
    MachineSetSpec,
    MachineTemplate,
)
from ullage.projects.machines.reading import set_of
from ullage.standalone.world.controllers.machine_set import BY_SET, MachineSetController

Json = dict[str, Any]
KEY = Key("kube-system", "pool-1")


class MachineApi(FakeApi):
    """Names what it is given none for; `refusal` is what it says of the next Machines."""

    def __init__(self) -> None:
        super().__init__()
        self.refusal: ApiError | None = None
        self.room: int | None = None  # for so many more, whatever `refusal` says
        self.posts = 0

    async def request(self, method: str, path: str, *, body: bytes = b"") -> bytes:
        kind = MACHINE_SETS if "/machinesets" in path else MACHINES
        name = path.rpartition("/")[2]
        if method == "GET":
            return json.dumps(self.objects[kind.name, Key("kube-system", name)]).encode()
        if method == "DELETE":
            self.take(kind, name, "kube-system")
            return b"{}"
        self.posts += 1
        if self.refusal is not None:
            if not self.room:
                raise self.refusal
            self.room -= 1
        given = json.loads(body)
        name = f"{given['metadata']['generateName']}{self.posts}"
        made = self._store(kind, {**given, "metadata": {**given["metadata"], "name": name, "uid": f"uid-{name}"}})
        return json.dumps(made).encode()

    @property
    def machines(self) -> list[str]:
        return sorted(key.name for kind, key in self.objects if kind == MACHINES.name)

    def status(self) -> Json:
        found: Json = self.objects[MACHINE_SETS.name, KEY].get("status") or {}
        return found


class Hands:
    """A controller whose caches see what is there only when they are told to."""

    def __init__(self, replicas: int) -> None:
        self.api, self.told = MachineApi(), Told()
        self.sets, self.machines = FakeCache(), FakeCache()
        self.machines.index(BY_SET, lambda one: (owner,) if (owner := set_of(one.metadata)) else ())
        self.controller = MachineSetController(
            self.api.client,
            sets=cast(Cache[MachineSet], self.sets),
            machines=cast(Cache[Machine], self.machines),
            recorder=self.told.recorder,
        )
        self.want(replicas)

    def want(self, replicas: int, *, generation: int = 1) -> None:
        meta = Meta(name=KEY.name, namespace=KEY.namespace, uid="uid-set", generation=generation)
        spec = MachineSetSpec(replicas=replicas, template=MachineTemplate())
        self.api.put(MACHINE_SETS, MachineSet(metadata=meta, spec=spec))

    async def reconcile(self, *, see: bool = True) -> Requeue | None:
        found = await self.api.find(MACHINE_SETS, KEY.name, KEY.namespace)
        self.sets.put(KEY, found)
        if see:
            for key in [key for _, key in self.api.objects if key != KEY]:
                self.machines.put(key, await self.api.find(MACHINES, key.name, key.namespace))
        return await self.controller.reconcile(KEY)


async def test_what_was_made_and_is_not_seen_yet_is_not_made_again() -> None:
    hands = Hands(2)
    await hands.reconcile()
    await hands.reconcile(see=False)
    assert hands.api.machines == ["pool-1-1", "pool-1-2"]
    await hands.reconcile()
    assert hands.api.posts == 2
    assert hands.api.status()["replicas"] == 2


async def test_one_that_went_before_it_was_seen_is_made_again() -> None:
    hands = Hands(1)
    await hands.reconcile()
    hands.api.take(MACHINES, "pool-1-1", KEY.namespace)
    await hands.reconcile(see=False)
    assert hands.api.machines == ["pool-1-2"]


async def test_each_try_asks_for_all_that_are_missing_and_tells_each_refusal_in_one_event() -> None:
    hands = Hands(3)
    hands.api.refusal = Forbidden("quota exceeded", code=403)
    await hands.reconcile()
    assert hands.api.posts == 3
    assert hands.told.reasons == ["ReconcileError"]
    assert hands.told.notes == ["failed to sync Machineset replicas: quota exceeded; quota exceeded; quota exceeded"]


async def test_the_status_of_a_set_says_nothing_of_a_refusal() -> None:
    hands = Hands(2)
    hands.api.refusal, hands.api.room = Forbidden("quota exceeded", code=403), 1
    await hands.reconcile()
    await hands.reconcile()
    assert hands.api.status() == {"replicas": 1, "fullyLabeledReplicas": 1, "observedGeneration": 1}


async def test_one_that_fits_is_made_beside_one_that_does_not() -> None:
    hands = Hands(3)
    hands.api.refusal, hands.api.room = Forbidden("quota exceeded", code=403), 1
    await hands.reconcile()
    assert hands.api.posts == 3
    assert len(hands.api.machines) == 1
    await hands.reconcile(see=False)
    assert hands.api.posts == 5, "the one that is not seen yet is not asked for again"


async def test_the_time_between_tries_doubles_until_all_sets_are_looked_at_again() -> None:
    hands = Hands(1)
    hands.api.refusal = Forbidden("quota exceeded", code=403)
    tries = [await hands.reconcile() for _ in range(20)]
    waits = [one.after for one in tries if one is not None]
    assert waits[:3] == [0.005, 0.01, 0.02]
    assert sum(waits[:9]) < 2.6 < sum(waits[:10]), "ten tries in the first 2.6 s"
    assert waits[-2:] == [300.0, 300.0]


async def test_a_change_of_the_set_has_it_asked_for_again_at_once() -> None:
    hands = Hands(1)
    hands.api.refusal = Forbidden("quota exceeded", code=403)
    await hands.reconcile()
    await hands.reconcile()
    assert hands.api.posts == 2


async def test_when_there_is_room_all_are_made_and_the_next_refusal_begins_anew() -> None:
    hands = Hands(2)
    hands.api.refusal = Forbidden("quota exceeded", code=403)
    await hands.reconcile()
    await hands.reconcile()
    hands.api.refusal = None
    assert await hands.reconcile() is None
    assert len(hands.api.machines) == 2
    hands.want(3, generation=2)
    hands.api.refusal = Forbidden("quota exceeded", code=403)
    assert await hands.reconcile() == Requeue(0.005)
    assert hands.told.reasons == ["ReconcileError"] * 3, "what was made is told by no Event"


async def test_a_server_that_does_not_answer_has_refused_nothing() -> None:
    hands = Hands(1)
    hands.api.refusal = Unavailable("no answer")
    with pytest.raises(Unavailable):
        await hands.reconcile()
    assert hands.told.reasons == []
