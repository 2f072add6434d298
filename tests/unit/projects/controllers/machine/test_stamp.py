"""Stamps of Machines: bound when they are made, made anew where they are wrong, and never less than before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.projects.machines.builders import LARGE, SMALL
from tests.unit.projects.seed_scene import SYSTEM, Json, SeedScene, machine_body, provider_spec, simulated
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.cache.indexer import Key
from ullage.kube.identities import NAMESPACE
from ullage.kube.kinds import Meta
from ullage.kube.objects import find_condition
from ullage.kube.review import Decision
from ullage.projects.api.kkp import CLUSTERS
from ullage.projects.api.machines import MACHINES
from ullage.projects.charging.keys import STAMP_KEYS
from ullage.projects.controllers import machine_stamp as stamp
from ullage.projects.controllers.machine_stamp import Bind, StampAnew, Turns, Unsized, step
from ullage.projects.machines.counting import Counted, Resize
from ullage.projects.machines.reading import machine_facts
from ullage.projects.machines.signatures import SigningKeys, Valid, verify
from ullage.projects.machines.updates import GUARDED

ANEW, UNSIZED = "MachineStampedAnew", "MachineNotSized"


def verdict(scene: SeedScene, name: str, *, keys: SigningKeys | None = None, cluster: str = "c-1") -> Any:
    found = scene.seed.others[cluster].get(MACHINES, Key(SYSTEM, name))
    return verify(machine_facts(cluster, found), keys or scene.keys)


async def never(body: Json) -> Decision:
    """A webhook that does not answer."""
    await asyncio.Event().wait()
    return Decision.allow()


def alarms(scene: SeedScene) -> list[tuple[str, str]]:
    return [(one.reason, one.regarding.name) for one in scene.seed.events]


def aged(body: Json) -> Json:
    """As it was made long before the scene began."""
    return {**body, "metadata": {**body["metadata"], "creationTimestamp": "2025-01-01T00:00:00Z"}}


def without_stamp(body: Json) -> Json:
    """As whoever takes the webhook out can have it."""
    kept = {key: value for key, value in body["metadata"]["annotations"].items() if key not in GUARDED}
    return {**body, "metadata": {**body["metadata"], "annotations": kept}}


@simulated
async def test_the_stamp_of_a_new_machine_is_bound_to_its_uid(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="4")
    async with scene.served(controllers=True):
        assert (await scene.create(name="a")).code == 200
        await scene.seen()
        found = verdict(scene, "a")
        assert (found.form, found.amounts, found.settled) == ("bound", SMALL, True)
        assert alarms(scene) == []


@simulated
async def test_machines_from_before_us_are_sized_stamped_and_booked_past_the_limit_without_an_alarm(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="3")
    for name in ("a", "b"):
        scene.store(MACHINES, aged(machine_body(name=name)))
    async with scene.served(controllers=True):
        await scene.seen()
        assert [verdict(scene, name).amounts for name in ("a", "b")] == [SMALL, SMALL]
        assert alarms(scene) == []
        refused = await scene.create()
        assert (refused.code, '"3"/"4"' in refused.message) == (403, True)


@simulated
async def test_a_machine_that_was_made_past_the_webhook_counts_and_alarms(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="3")
    async with scene.served(controllers=True):
        await asyncio.sleep(120)
        scene.store(MACHINES, machine_body("l", name="sneaked"))
        await scene.seen()
        assert verdict(scene, "sneaked").amounts == LARGE
        assert alarms(scene) == [(ANEW, "c-1")]
        assert "c-1/kube-system/sneaked" in scene.seed.events[0].note
        assert (await scene.create()).code == 403


@simulated
async def test_a_stamp_that_is_taken_away_with_a_smaller_spec_put_in_counts_no_less_than_before(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="4")
    async with scene.served(controllers=True):
        assert (await scene.create("l", name="a")).code == 200
        await scene.seen()
        body = without_stamp(scene.body("a"))
        body["spec"]["providerSpec"]["value"] = provider_spec("s")
        scene.store(MACHINES, body)
        await scene.seen()
        assert verdict(scene, "a").amounts == LARGE
        assert alarms(scene) == [(ANEW, "c-1")]
        assert (await scene.create("s")).code == 403


@simulated
async def test_a_copied_stamp_is_replaced(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served(controllers=True):
        await scene.create("s", name="small")
        await scene.seen()
        marks = {key: scene.body("small")["metadata"]["annotations"][key] for key in GUARDED}
        scene.store(MACHINES, machine_body("l", name="large", annotations=marks))
        await scene.seen()
        assert verdict(scene, "large").amounts == LARGE
        assert (ANEW, "c-1") in alarms(scene)


@simulated
async def test_a_size_that_nobody_knows_is_told_looked_up_and_stamped_once_it_is_known(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="30")
    scene.store(MACHINES, aged(machine_body("huge", name="a")))
    async with scene.served(controllers=True):
        await scene.seen()
        assert alarms(scene) == [(UNSIZED, "c-1")]
        assert {key.name for key in scene.sizes.wanted} == {"huge"}
        ready = find_condition(scene.ledger().status.conditions, "Ready")
        assert ready is not None
        assert ready.reason == "Uncountable"
        scene.sizes.known["huge"] = LARGE
        await asyncio.sleep(40)
        assert verdict(scene, "a").amounts == LARGE


@simulated
async def test_what_an_old_key_has_signed_is_renewed(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served(controllers=True):
        await scene.create(name="a")
        await scene.seen()
        before = scene.keys
        rotate(scene, SigningKeys(b"n" * 32, before.signs))
        await scene.seen()
        assert isinstance(verdict(scene, "a", keys=SigningKeys(b"n" * 32)), Valid)
        assert alarms(scene) == []


def rotate(scene: SeedScene, keys: SigningKeys) -> None:
    assert keys.accepted is not None
    data = secret_data({"signs": keys.signs, "accepted": keys.accepted})
    scene.seed.put(SECRETS, Secret(metadata=Meta(name=STAMP_KEYS, namespace=NAMESPACE), data=data))


@simulated
async def test_somebody_who_takes_the_stamp_off_each_time_is_answered_later_and_later(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served(controllers=True):
        await scene.create(name="a")
        for _ in range(30):
            await asyncio.sleep(1)
            scene.store(MACHINES, without_stamp(scene.body("a")))
        writes = [call for call in scene.seed.others["c-1"].calls if call == "PATCH machines a"]
        assert len(writes) < 10
        await asyncio.sleep(60)
        assert verdict(scene, "a").amounts == SMALL


@simulated
async def test_a_cluster_whose_own_webhook_lets_us_wait_keeps_no_other_one_waiting(scene: SeedScene) -> None:
    slow = scene.cluster()
    scene.cluster("c-2", of="xyz")
    quick, slow.admitted = slow.admitted, never
    for number in range(100):
        scene.store(MACHINES, aged(machine_body(name=f"a-{number}")))
    async with scene.served(controllers=True):
        scene.store(MACHINES, aged(machine_body(name="b")), cluster="c-2")
        await scene.seen()
        assert isinstance(verdict(scene, "b", cluster="c-2"), Valid)
        for number in range(10):
            scene.remove(f"a-{number}")  # among those in line: they do not hold up the others
        slow.admitted = quick
        await asyncio.sleep(120)
        assert all(isinstance(verdict(scene, f"a-{number}"), Valid) for number in range(10, 100)), "each had its turn"


@simulated
async def test_sizes_that_nobody_knows_are_asked_for_less_often_where_there_are_very_many(
    scene: SeedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stamp, "EACH", 10)
    scene.cluster()
    for number in range(100):
        scene.store(MACHINES, aged(machine_body("unheard-of", name=f"a-{number}")))
    async with scene.served(controllers=True):
        await asyncio.sleep(30)
        scene.sizes.wanted.clear()
        await asyncio.sleep(600)
        assert 100 <= len(scene.sizes.wanted) <= 300, "twice in ten minutes, and not twenty times"
        scene.sizes.known["unheard-of"] = SMALL
        await asyncio.sleep(600)
        assert all(isinstance(verdict(scene, f"a-{number}"), Valid) for number in range(100))


@simulated
async def test_nothing_is_kept_of_machines_and_clusters_that_went(scene: SeedScene) -> None:
    for name in ("c-1", "c-2"):
        scene.cluster(name)
    made: list[stamp.MachineStamps] = []
    before = stamp.MachineStamps.controller

    def controller(stamps: stamp.MachineStamps, **terms: Any) -> Any:
        made.append(stamps)
        return before(stamps, **terms)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stamp.MachineStamps, "controller", controller)
        async with scene.served(controllers=True):
            for cluster in ("c-1", "c-2"):
                assert (await scene.create(name="a", cluster=cluster)).code == 200
            await scene.seen()
            kept = made[0]._rewrites
            assert {name: len(one._last) for name, one in kept.items()} == {"c-1": 1, "c-2": 1}
            scene.remove("a")
            scene.seed.drop(CLUSTERS, Key("", "c-2"))
            await scene.seen()
            assert {name: len(one._last) for name, one in kept.items()} == {"c-1": 0}


def test_turns_are_given_in_order_and_nothing_is_kept_of_those_who_had_theirs() -> None:
    turns: Turns[str] = Turns(at_once=2)
    assert [turns.take("c-1", key) for key in "abcdc"] == [True, True, False, False, False]
    assert turns.take("c-2", "x")
    assert [turns.end("c-1"), turns.end("c-1"), turns.end("c-2")] == ["c", "d", None]
    assert len(turns) == 0
    assert turns.take("c-1", "c")


@simulated
async def test_a_machine_of_a_cluster_of_no_project_is_left_alone(scene: SeedScene) -> None:
    host = scene.cluster(of="")
    scene.store(MACHINES, machine_body(name="a"))
    async with scene.served(controllers=True):
        await scene.seen()
        assert host.calls == []


@pytest.mark.parametrize(
    ("found", "size", "wanted"),
    [
        pytest.param(Counted(SMALL), None, None, id="settled"),
        pytest.param(Counted(SMALL, bind=True), LARGE, Bind(SMALL), id="to be bound, for what it says"),
        pytest.param(
            Resize(reason="Missing", message="m", at_least=LARGE),
            SMALL,
            StampAnew(amounts=LARGE, reason="Missing", message="m", alarm=True),
            id="never less than before",
        ),
        pytest.param(
            Resize(reason="Missing", message="m", alarm=False),
            SMALL,
            StampAnew(amounts=SMALL, reason="Missing", message="m", alarm=False),
            id="as its spec says",
        ),
        pytest.param(Resize(reason="Missing", message="m"), None, Unsized("m; and its size is not known: why"), id="not known"),
    ],
)
def test_what_is_done_about_a_stamp(found: Any, size: Any, wanted: Any) -> None:
    assert step(found, size, problem="why") == wanted
