"""What the seed remembers of Machines: a Machine that vanished counts on, and its room is given to nobody in between."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.unit.projects.builders import cluster as cluster_object
from tests.unit.projects.machines.builders import LARGE, NOW, SMALL, later
from tests.unit.projects.seed_scene import Json, SeedScene, machine_body, simulated
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Amounts
from ullage.projects.api.kkp import CLUSTERS
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.records import MACHINE_RECORDS, MachineRecord, MachineRecordStatus, VanishedMachine
from ullage.projects.charging.presence import recorded_machines
from ullage.projects.controllers import machine_record as controller
from ullage.projects.controllers.machine_record_rules import NextRecord, RecordFacts, keep_for, key_of, next_record
from ullage.projects.machines.reading import machine_facts
from ullage.projects.machines.signatures import sign_bound
from ullage.projects.machines.vanished import MOST, Vanished
from ullage.projects.names import CLUSTER_UID
from ullage.projects.records import (
    MOST_REMEMBERED,
    BadRecord,
    ledger_of,
    remembered_in,
    status_of,
    takes_of,
    vanished_in,
)

KEEP = timedelta(minutes=2)


def record_of(scene: SeedScene, name: str = "c-1") -> MachineRecord:
    found = scene.seed.get(MACHINE_RECORDS, Key("", name))
    assert isinstance(found, MachineRecord)
    return found


# --- in a seed -------------------------------------------------------------------------------------------------------


@simulated
async def test_a_record_is_made_for_each_cluster_with_what_its_machines_take(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served(controllers=True):
        await scene.create(name="a")
        await scene.create("l", name="b")
        await scene.seen()
        found = record_of(scene)
        assert found.metadata.labels == {"project-id": "abc"}
        assert (found.metadata.annotations, found.metadata.owner_references) == ({CLUSTER_UID: "uid-of-c-1"}, ())
        assert sorted(map(str, remembered_in(found).values())) == sorted(map(str, [SMALL, LARGE]))
        assert found.status.count == 2


@simulated
async def test_a_machine_that_vanished_counts_for_the_set_time_and_then_no_more(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="2")
    async with scene.served(controllers=True):
        await scene.create(name="a")
        await scene.seen()
        scene.remove("a")
        await scene.seen()
        assert [one.cpu for one in record_of(scene).status.vanished] == ["2"]
        assert (await scene.create(name="b")).code == 403
        await asyncio.sleep(KEEP.total_seconds())
        assert record_of(scene).status.vanished == ()
        assert (await scene.create(name="b")).code == 200


@simulated
async def test_a_machine_that_vanished_leaves_no_room_before_the_record_says_so(scene: SeedScene) -> None:
    scene.cluster("c-1")
    scene.cluster("c-2")
    scene.limits(cpu="2")
    async with scene.served(controllers=True):
        await scene.create(name="a")
        await scene.seen()

        def away(moment: str) -> None:
            if any(call.startswith("PATCH machinerecords") for call in scene.seed.calls[-1:]):
                raise ConnectionError("not now")

        scene.seed.fault = away
        scene.remove("a")
        await scene.seen()
        assert record_of(scene).status.vanished == ()
        assert (await scene.create(name="b", cluster="c-2")).code == 403
        scene.seed.fault = lambda moment: None
        await asyncio.sleep(10)
        assert len(record_of(scene).status.vanished) == 1
        assert (await scene.create(name="b", cluster="c-2")).code == 403
        await asyncio.sleep(KEEP.total_seconds())
        assert (await scene.create(name="b", cluster="c-2")).code == 200


@simulated
async def test_machines_without_servers_are_gone_at_once(scene: SeedScene) -> None:
    scene.cluster(provider="fake")
    scene.limits(cpu="2")
    async with scene.served(controllers=True):
        await scene.create(name="a")
        await scene.seen()
        scene.remove("a")
        await scene.seen()
        assert (record_of(scene).status.vanished, record_of(scene).status.count) == ((), 0)
        assert (await scene.create(name="b")).code == 200


@simulated
async def test_a_machine_that_went_while_nobody_led_counts_on_from_when_it_is_missed(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="2")
    meta = Meta(name="c-1", uid="r-1", labels={"project-id": "abc"}, annotations={CLUSTER_UID: "uid-of-c-1"})
    scene.seed.put(MACHINE_RECORDS, MachineRecord(metadata=meta, status=status_of({"u-gone": SMALL}, ())))
    async with scene.served(controllers=True):
        await scene.seen()
        assert [one.key for one in record_of(scene).status.vanished] == [key_of("c-1", "u-gone")]
        assert (await scene.create()).code == 403


@simulated
async def test_many_machines_are_written_down_together(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served(controllers=True):
        for number in range(40):
            await scene.create(name=f"m{number}")
        await scene.seen()
        assert record_of(scene).status.count == 40
        assert len([call for call in scene.seed.calls if call == "PATCH machinerecords c-1"]) <= 8


@simulated
async def test_a_machine_that_comes_while_others_are_written_down_is_remembered(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served(controllers=True):
        scene.seed.latency = lambda: 2.0
        scene.store(MACHINES, bound(scene, "a"))
        await asyncio.sleep(1)  # the record is on its way
        scene.store(MACHINES, bound(scene, "b"))
        await asyncio.sleep(30)
        assert remembered_in(record_of(scene)) == {"u-a": SMALL, "u-b": SMALL}


class Looks:
    """Counts how often the Machines of a cluster are gone through; `takes` is how long that lasts, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: float = 0.0) -> None:
        self.count = 0

        def looked(cluster: str, facts: RecordFacts, **terms: Any) -> NextRecord:
            self.count += 1
            asyncio.get_running_loop().moment += takes  # type: ignore[attr-defined]  # of virtual time
            return next_record(cluster, facts, **terms)

        monkeypatch.setattr(controller, "next_record", looked)


@simulated
async def test_what_only_tells_how_a_machine_does_has_nobody_go_through_all_of_them(
    scene: SeedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.cluster()
    async with scene.served(controllers=True):
        scene.store(MACHINES, bound(scene, "a"))
        await asyncio.sleep(30)
        looks = Looks(monkeypatch)
        for number in range(20):
            scene.store(MACHINES, {**scene.body("a"), "status": {"nodeRef": {"name": f"node-{number}"}}})
            await asyncio.sleep(1)
        assert looks.count == 0


@simulated
async def test_a_cluster_whose_machines_take_long_to_go_through_is_looked_at_less_often(
    scene: SeedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.cluster()
    looks = Looks(monkeypatch, takes=2.0)
    async with scene.served(controllers=True):
        for number in range(100):
            scene.store(MACHINES, bound(scene, f"m{number}"))
            await asyncio.sleep(1)
        assert looks.count <= 7
        await asyncio.sleep(60)
        assert record_of(scene).status.count == 100


def bound(scene: SeedScene, name: str) -> Json:
    """A Machine about which nothing is left to be done."""
    body = machine_body(name=name)
    body["metadata"]["uid"] = f"u-{name}"
    facts = machine_facts("c-1", msgspec.convert(body, MACHINES.type))
    body["metadata"]["annotations"] = sign_bound(facts, SMALL, scene.keys, now=scene.clock.now()).marks()
    return body


@simulated
async def test_a_cluster_that_cannot_be_read_keeps_what_is_recorded(scene: SeedScene) -> None:
    host = scene.cluster()
    async with scene.served(controllers=True):
        await scene.create(name="a")
        await scene.seen()
        host.cut_off()
        await asyncio.sleep(600)
        assert (record_of(scene).status.count, record_of(scene).status.vanished) == (1, ())


@simulated
async def test_the_record_follows_its_cluster_to_another_project_and_out_of_all(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served(controllers=True):
        await scene.create(name="a")
        await scene.seen()
        scene.cluster(of="xyz")
        await scene.seen()
        assert (record_of(scene).metadata.labels, record_of(scene).status.count) == ({"project-id": "xyz"}, 1)
        scene.cluster(of="")
        await scene.seen()
        assert ledger_of(record_of(scene)) == ""


@simulated
async def test_machines_of_a_cluster_that_is_gone_count_on_like_others_that_went(scene: SeedScene) -> None:
    scene.cluster("c-1")
    scene.cluster("c-2")
    scene.limits(cpu="4")
    async with scene.served(controllers=True):
        for name in "ab":
            assert (await scene.create(name=name)).code == 200
        await scene.seen()
        scene.remove("a")
        await asyncio.sleep(30)
        scene.seed.drop(CLUSTERS, Key("", "c-1"))
        for _ in range(20):
            await asyncio.sleep(1)
            assert (await scene.create("s", cluster="c-2")).code == 403, "at no moment there is room"
        assert sorted(one.cpu for one in record_of(scene).status.vanished) == ["2", "2"]
        assert record_of(scene).status.count == 0
        await asyncio.sleep(KEEP.total_seconds() - 25)
        assert [one.cpu for one in record_of(scene).status.vanished] == ["2"], "the one that went first is over"
        await asyncio.sleep(60)
        assert scene.seed.get(MACHINE_RECORDS, Key("", "c-1")) is None
        assert (await scene.create("l", cluster="c-2")).code == 200


@simulated
async def test_a_cluster_that_is_gone_leaves_no_room_before_the_record_says_so(scene: SeedScene) -> None:
    scene.cluster("c-1")
    scene.cluster("c-2")
    scene.limits(cpu="2")
    async with scene.served(controllers=True):
        assert (await scene.create(name="a")).code == 200
        await scene.seen()

        def away(moment: str) -> None:
            if any(call.startswith("PATCH machinerecords") for call in scene.seed.calls[-1:]):
                raise ConnectionError("not now")

        scene.seed.fault = away
        scene.seed.drop(CLUSTERS, Key("", "c-1"))
        await asyncio.sleep(60)
        assert (await scene.create("s", cluster="c-2")).code == 403
        scene.seed.fault = lambda moment: None
        await asyncio.sleep(60)
        assert (await scene.create("s", cluster="c-2")).code == 403
        await asyncio.sleep(2 * KEEP.total_seconds())
        assert (await scene.create("s", cluster="c-2")).code == 200


@simulated
async def test_another_cluster_of_the_name_has_the_record_with_what_went_before(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="4")
    async with scene.served(controllers=True):
        await scene.create(name="a")
        await scene.seen()
        scene.remove("a")
        scene.seed.drop(CLUSTERS, Key("", "c-1"))
        scene.seed.put(CLUSTERS, cluster_object("c-1", uid="another"))
        await asyncio.sleep(20)
        assert record_of(scene).metadata.annotations == {CLUSTER_UID: "another"}
        assert [one.cpu for one in record_of(scene).status.vanished] == ["2"]
        assert (await scene.create("l", name="b")).code == 403
        await scene.create(name="b")
        await asyncio.sleep(20)
        assert record_of(scene).status.count == 1


@simulated
async def test_machines_without_servers_are_gone_with_their_cluster(scene: SeedScene) -> None:
    scene.cluster(provider="fake")
    async with scene.served(controllers=True):
        await scene.create(name="a")
        await scene.seen()
        scene.seed.drop(CLUSTERS, Key("", "c-1"))
        await asyncio.sleep(10)
        assert scene.seed.get(MACHINE_RECORDS, Key("", "c-1")) is None


@simulated
async def test_a_machine_that_is_missing_in_one_process_is_settled_there_when_the_record_says_so(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.served():
        recorded = scene.wiring.shared(recorded_machines)
        scene.store(MACHINES, machine_body(name="a"))
        await scene.seen()
        uid = scene.body("a")["metadata"]["uid"]
        meta = Meta(name="c-1", labels={"project-id": "abc"})
        scene.seed.put(MACHINE_RECORDS, MachineRecord(metadata=meta, status=status_of({uid: SMALL}, ())))
        await scene.seen()
        assert recorded.is_settled("c-1")
        scene.remove("a")
        await scene.seen()
        assert not recorded.is_settled("c-1")
        scene.seed.put(MACHINE_RECORDS, MachineRecord(metadata=meta, status=status_of({}, ())))
        await scene.seen()
        assert recorded.is_settled("c-1")
        scene.seed.put(MACHINE_RECORDS, MachineRecord(metadata=meta, status=MachineRecordStatus(machines="1broken")))
        await scene.seen()
        assert not recorded.is_settled("c-1")


# --- rules -----------------------------------------------------------------------------------------------------------


def gone(uid: str, since: float = 0, amounts: Amounts = SMALL) -> Vanished:
    return Vanished(key=key_of("c", uid), amounts=amounts, since=later(since))


def test_the_most_that_a_machine_has_said_is_remembered() -> None:
    facts = RecordFacts({"a": LARGE, "b": SMALL}, (), {"a": SMALL, "b": None, "c": SMALL, "d": None}, {})
    assert next_record("c", facts, now=NOW, keep=KEEP).remembered == {"a": LARGE, "b": SMALL, "c": SMALL}


def test_one_that_came_back_from_a_backup_does_not_count_twice() -> None:
    facts = RecordFacts({}, (gone("a"),), {"a": SMALL}, {})
    assert next_record("c", facts, now=NOW, keep=KEEP).vanished == ()


def test_one_that_went_before_it_was_recorded_counts_on() -> None:
    found = next_record("c", RecordFacts({}, (), {}, {"a": SMALL}), now=NOW, keep=KEEP)
    assert (found.vanished, found.until) == ((gone("a"),), later(120))


def test_where_nobody_can_say_what_is_there_nothing_vanishes_and_what_did_still_ends() -> None:
    facts = RecordFacts({"a": SMALL}, (gone("x", -120), gone("y", -60)), None, {})
    found = next_record("c", facts, now=NOW, keep=KEEP)
    assert (found.remembered, found.vanished, found.until) == ({"a": SMALL}, (gone("y", -60),), later(60))


def test_machines_that_are_made_and_lost_by_the_thousand_fill_no_record_and_all_count() -> None:
    lost = {f"u-{number:05d}": SMALL for number in range(3 * MOST)}
    found = next_record("c", RecordFacts({}, (), {}, lost), now=NOW, keep=KEEP)
    assert len(found.vanished) == MOST
    made = MachineRecord(metadata=Meta(name="c"), status=status_of({}, found.vanished))
    assert takes_of(made).account("machines") == Amounts.total([SMALL] * 3 * MOST)


def test_only_the_provider_on_the_seed_says_that_there_are_no_servers() -> None:
    assert (keep_for("fake", KEEP), keep_for("aws", KEEP), keep_for("", KEEP)) == (timedelta(), KEEP, KEEP)


# --- as it is written ------------------------------------------------------------------------------------------------


def test_what_is_written_is_read_back() -> None:
    status = status_of({"a": SMALL, "b": LARGE, "c": SMALL}, (gone("x"),))
    made = MachineRecord(metadata=Meta(name="c", labels={"project-id": "abc"}), status=status)
    assert (remembered_in(made), vanished_in(made), ledger_of(made)) == (
        {"a": SMALL, "b": LARGE, "c": SMALL},
        (gone("x"),),
        "project-abc",
    )
    assert status_of({"c": SMALL, "b": LARGE, "a": SMALL}, (gone("x"),)) == status


def test_a_record_has_room_for_so_many_and_says_how_many_are_beyond() -> None:
    many = {f"{number:08d}-1111-2222-3333-444444444444": SMALL for number in range(MOST_REMEMBERED + 3)}
    status = status_of(many, ())
    assert (status.count, status.not_remembered) == (MOST_REMEMBERED + 3, 3)
    assert len(remembered_in(MachineRecord(status=status))) == MOST_REMEMBERED
    assert len(status.machines) < 1_000_000


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(MachineRecordStatus(machines="1%%%"), id="no base64"),
        pytest.param(MachineRecordStatus(machines="9abc"), id="of another version"),
        pytest.param(
            MachineRecordStatus(vanished=(VanishedMachine(key="x", cpu="-1", since="2026-01-01T00:00:00Z"),)),
            id="less than nothing",
        ),
        pytest.param(MachineRecordStatus(vanished=(VanishedMachine(key="x", since="yesterday"),)), id="no time"),
    ],
)
def test_a_record_that_cannot_be_read_is_not_taken_for_an_empty_one(status: MachineRecordStatus) -> None:
    made = MachineRecord(metadata=Meta(name="c"), status=status)
    read = remembered_in if status.machines else vanished_in
    with pytest.raises(BadRecord, match="machinerecord c"):
        read(made)


def test_what_counts_as_before_is_held_once_and_not_put_together_anew() -> None:
    held = Amounts.parse({"cpu": "2"})
    facts = RecordFacts(
        {"a": held, "b": held, "c": held}, (), {"a": Amounts.parse({"cpu": "2000m"}), "b": None, "c": LARGE}, {}
    )
    found = next_record("c-1", facts, now=NOW, keep=KEEP).remembered
    assert found["a"] is held
    assert found["b"] is held
    assert found["c"] == LARGE
