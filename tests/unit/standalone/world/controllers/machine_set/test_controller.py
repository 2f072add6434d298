"""MachineSets against an API in memory: what was made and is not seen yet, what is refused and when it is tried again."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tests.unit.standalone.world.fake_api import FakeApi, FakeCache, Told
from ullage.clock import Clock
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
from ullage.standalone.world.controllers.machine_set.controller import BY_SET, MachineSetController

Json = dict[str, Any]
KEY = Key("kube-system", "pool-1")


class MachineApi(FakeApi):
    """Names what it is given none for; `refusal` is what it says of the next Machines."""

    def __init__(self) -> None:
        super().__init__()
        self.refusal: ApiError | None = None
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
            raise self.refusal
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
        self.api, self.told, self.now = MachineApi(), Told(), 0.0
        self.sets, self.machines = FakeCache(), FakeCache()
        self.machines.index(BY_SET, lambda one: (owner,) if (owner := set_of(one.metadata)) else ())
        self.controller = MachineSetController(
            self.api.client,
            sets=cast(Cache[MachineSet], self.sets),
            machines=cast(Cache[Machine], self.machines),
            recorder=self.told.recorder,
            clock=cast(Clock, self),
        )
        self.want(replicas)

    def monotonic(self) -> float:
        return self.now

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


async def test_a_refusal_is_shown_told_once_and_tried_again_later_and_later() -> None:
    hands = Hands(3)
    hands.api.refusal = Forbidden("quota exceeded", code=403)
    first = await hands.reconcile()
    assert isinstance(first, Requeue)
    assert hands.api.status()["errorReason"] == "CreateError"
    assert hands.api.status()["errorMessage"] == "the Machine was refused: quota exceeded"
    await hands.reconcile()
    assert hands.api.posts == 1, "its own write brings it back, and it waits all the same"
    hands.now += first.after + 60
    second = await hands.reconcile()
    assert hands.api.posts == 2
    assert isinstance(second, Requeue)
    assert (first.after, second.after) == (0.5, 1.0)
    assert hands.told.reasons == ["FailedCreate"]


async def test_when_there_is_room_all_are_made_and_nothing_is_said_any_more() -> None:
    hands = Hands(2)
    hands.api.refusal = Forbidden("quota exceeded", code=403)
    await hands.reconcile()
    hands.api.refusal, hands.now = None, 100.0
    assert await hands.reconcile() is None
    assert len(hands.api.machines) == 2
    assert "errorMessage" not in hands.api.status()
    assert hands.told.reasons == ["FailedCreate", "SuccessfulCreate", "SuccessfulCreate"]


async def test_whoever_scales_is_answered_at_once() -> None:
    hands = Hands(2)
    hands.api.refusal = Forbidden("quota exceeded", code=403)
    await hands.reconcile()
    hands.want(1, generation=2)
    await hands.reconcile()
    assert hands.api.posts == 2


async def test_a_server_that_does_not_answer_has_refused_nothing() -> None:
    hands = Hands(1)
    hands.api.refusal = Unavailable("no answer")
    with pytest.raises(Unavailable):
        await hands.reconcile()
    assert hands.told.reasons == []
