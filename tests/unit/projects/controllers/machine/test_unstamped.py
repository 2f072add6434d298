"""Machines whose stamps somebody takes off, exchanges or puts back each time: they count by what was found out about them."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest

from tests.unit.ledger.counted import counted
from tests.unit.projects.machines.builders import LARGE, NOW, SMALL, later
from tests.unit.projects.seed_scene import Json, SeedScene, machine_body, provider_spec, simulated
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.kube.objects import find_condition
from ullage.kube.review import Decision
from ullage.ledger.amounts import Amounts
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.records import MACHINE_RECORDS, MachineRecord, MachineRecordStatus
from ullage.projects.charging.presence import record_changes, recorded_machines
from ullage.projects.controllers.machine_record import RecordCollector
from ullage.projects.controllers.machine_record_rules import (
    NAMED,
    RecordFacts,
    RecordNews,
    conditions_of,
    newly_false,
    next_record,
)
from ullage.projects.machines.updates import GUARDED
from ullage.projects.records import MOST_REMEMBERED, RecordedAmounts, recorded_in, status_of

TOLD = "MachinesWithoutStamp"
NOT_REMEMBERED = "MachinesNotRemembered"


def stripped(body: Json) -> Json:
    meta = body["metadata"]
    kept = {key: value for key, value in meta.get("annotations", {}).items() if key not in GUARDED}
    return {**body, "metadata": {**meta, "annotations": kept}}


def strips(scene: SeedScene, name: str = "c-1") -> Any:
    """A webhook of whoever administers the cluster: what we write has no stamp when it is stored."""

    async def admitted(body: Json) -> Decision:
        scene.store(MACHINES, stripped(deepcopy(body)), cluster=name)
        return Decision.allow()

    return admitted


def forges(scene: SeedScene, name: str = "c-1") -> Any:
    async def admitted(body: Json) -> Decision:
        made = stripped(deepcopy(body))
        made["metadata"]["annotations"] |= {GUARDED[0]: '{"machines":{"cpu":"0"}}', GUARDED[1]: "v1:bound:1:" + "0" * 64}
        scene.store(MACHINES, made, cluster=name)
        return Decision.allow()

    return admitted


def record_of(scene: SeedScene, name: str = "c-1") -> MachineRecord:
    found = scene.seed.get(MACHINE_RECORDS, Key("", name))
    assert isinstance(found, MachineRecord)
    return found


def used(scene: SeedScene) -> str:
    """The processors that are counted, those of Machines that went with them."""
    found = counted(scene.ledger().status.sums)
    return str(Amounts.total(Amounts.parse(one.get("machines", {})) for one in found.values())["cpu"])


def ready(scene: SeedScene) -> str:
    found = find_condition(scene.ledger().status.conditions, "Ready")
    return found.status if found is not None else ""


def told(scene: SeedScene, reason: str = TOLD) -> list[str]:
    return [one.note for one in scene.seed.events if one.reason == reason]


# --- in a seed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hostile", [pytest.param(strips, id="taken off"), pytest.param(forges, id="forged")])
@simulated
async def test_a_machine_whose_stamp_is_undone_each_time_is_booked_past_the_limit_and_counts(
    scene: SeedScene, hostile: Any
) -> None:
    host = scene.cluster()
    scene.limits(cpu="6")
    async with scene.served(controllers=True):
        await asyncio.sleep(120)
        host.admitted = hostile(scene)
        for name in ("a", "b"):
            scene.store(MACHINES, machine_body("l", name=name))
        await asyncio.sleep(10)
        assert (used(scene), ready(scene), record_of(scene).status.unstamped) == ("8", "True", 2)
        refused = await scene.create("s")
        assert (refused.code, '"6"/"8"' in refused.message) == (403, True)


@simulated
async def test_it_counts_after_a_restart_and_once_only_when_its_stamp_is_good_again(scene: SeedScene) -> None:
    host = scene.cluster()
    scene.limits(cpu="20")
    async with scene.served(controllers=True):
        assert (await scene.create("l", name="a")).code == 200
        await scene.seen()
        host.admitted = strips(scene)
        scene.store(MACHINES, stripped(scene.body("a")))
        await asyncio.sleep(120)
        assert (used(scene), ready(scene)) == ("4", "True")
    again = scene.restarted()
    host.admitted = strips(again)
    async with again.served(controllers=True):
        await asyncio.sleep(20)
        assert (used(again), ready(again), record_of(again).status.unstamped) == ("4", "True", 1)
        again.cluster()  # nobody undoes it any more
        await asyncio.sleep(700)
        assert (used(again), ready(again), record_of(again).status.unstamped) == ("4", "True", 0)
        assert recorded_in(record_of(again)).held == frozenset()


@simulated
async def test_it_is_told_after_a_while_and_no_more_when_stamps_stay(scene: SeedScene) -> None:
    host = scene.cluster()
    async with scene.served(controllers=True):
        await asyncio.sleep(120)
        scene.store(MACHINES, machine_body(name="sneaked"))
        await asyncio.sleep(60)
        assert told(scene) == [], "it was stamped, and that was told"
        host.admitted = strips(scene)
        scene.store(MACHINES, stripped(scene.body("sneaked")))
        await asyncio.sleep(20)
        assert told(scene) == []
        await asyncio.sleep(30)
        (note,) = told(scene)
        assert "kube-system/sneaked" in note
        found = find_condition(record_of(scene).status.conditions, "Stamped")
        assert found is not None
        assert (found.status, found.reason, found.message) == ("False", "StampsTakenOff", note)
        assert gauge(scene) == {"c-1": 1.0}
        scene.cluster()
        await asyncio.sleep(700)
        found = find_condition(record_of(scene).status.conditions, "Stamped")
        assert found is not None
        assert found.status == "True"
        assert (len(told(scene)), gauge(scene)) == (1, {})


def gauge(scene: SeedScene) -> dict[str, float]:
    (found, _) = RecordCollector(scene.wiring.shared(recorded_machines).records).collect()
    return {sample.labels["cluster"]: sample.value for sample in found.samples}


@simulated
async def test_one_that_goes_without_a_stamp_counts_on_like_any_other(scene: SeedScene) -> None:
    host = scene.cluster()
    scene.limits(cpu="4")
    async with scene.served(controllers=True):
        host.admitted = strips(scene)
        scene.store(MACHINES, machine_body("l", name="a"))
        await asyncio.sleep(10)
        scene.remove("a")
        await asyncio.sleep(10)
        assert (used(scene), [one.cpu for one in record_of(scene).status.vanished]) == ("4", ["4"])
        assert (await scene.create("s")).code == 403


@simulated
async def test_one_whose_spec_is_exchanged_for_a_larger_one_counts_as_that(scene: SeedScene) -> None:
    host = scene.cluster()
    scene.limits(cpu="20")
    async with scene.served(controllers=True):
        await scene.create("m", name="a")
        await scene.seen()
        host.admitted = strips(scene)
        for flavour, cpu in (("m", "2"), ("l", "4"), ("s", "4")):
            body = stripped(scene.body("a"))
            body["spec"]["providerSpec"]["value"] = provider_spec(flavour)
            scene.store(MACHINES, body)
            await asyncio.sleep(10)
            assert used(scene) == cpu


@simulated
async def test_one_of_unknown_size_is_in_no_sum_and_counts_once_the_size_is_known(scene: SeedScene) -> None:
    host = scene.cluster()
    scene.limits(cpu="20")
    async with scene.served(controllers=True):
        host.admitted = strips(scene)
        scene.store(MACHINES, machine_body("huge", name="a"))
        await asyncio.sleep(10)
        assert (used(scene), ready(scene)) == ("0", "False")
        scene.sizes.known["huge"] = LARGE
        await asyncio.sleep(60)
        assert (used(scene), record_of(scene).status.unstamped) == ("4", 1)


@simulated
async def test_an_earlier_stamp_that_was_read_before_the_record_is_noticed_when_that_comes(scene: SeedScene) -> None:
    """As at the start of a process: which of both is read first is chance."""
    scene.cluster()
    scene.limits(cpu="20")
    async with scene.served():
        assert (await scene.create("m", name="a")).code == 200
        await scene.seen()
        await scene.create("s", name="other")
        assert used(scene) == "2"
        uid = scene.body("a")["metadata"]["uid"]
        meta = Meta(name="c-1", labels={"project-id": "abc"})
        scene.seed.put(MACHINE_RECORDS, MachineRecord(metadata=meta, status=status_of({uid: LARGE}, (), held={uid})))
        await scene.seen()
        await scene.create("s", name="another")
        assert used(scene) == "5", "4 that the record holds against it, and 1 of the other"


@simulated
async def test_administrators_are_told_of_machines_that_are_not_remembered(
    scene: SeedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ullage.projects.records.MOST_REMEMBERED", 2)
    scene.cluster()
    async with scene.served(controllers=True):
        for name in "abc":
            await scene.create("s", name=name)
        await scene.seen()
        found = find_condition(record_of(scene).status.conditions, "Remembered")
        assert found is not None
        assert (found.status, found.reason, told(scene, NOT_REMEMBERED)) == ("False", "TooManyMachines", [found.message])
        scene.remove("a")
        await scene.seen()
        found = find_condition(record_of(scene).status.conditions, "Remembered")
        assert found is not None
        assert found.status == "True"


# --- rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "stamped", "size", "counts", "held"),
    [
        pytest.param(None, SMALL, None, SMALL, False, id="stamped"),
        pytest.param(SMALL, SMALL, None, SMALL, False, id="stamped, as before"),
        pytest.param(SMALL, LARGE, None, LARGE, False, id="stamped with more than before"),
        pytest.param(LARGE, SMALL, None, LARGE, True, id="an earlier stamp"),
        pytest.param(SMALL, None, LARGE, LARGE, True, id="no stamp, and its spec costs more"),
        pytest.param(LARGE, None, SMALL, LARGE, True, id="no stamp, and its spec costs less"),
        pytest.param(SMALL, None, None, SMALL, True, id="no stamp, and nobody knows what its spec costs"),
        pytest.param(None, None, SMALL, SMALL, True, id="never had a stamp"),
        pytest.param(None, None, None, None, False, id="never had one, and nobody knows"),
    ],
)
def test_what_is_written_down_of_a_machine(
    known: Amounts | None, stamped: Amounts | None, size: Amounts | None, counts: Amounts | None, held: bool
) -> None:
    facts = RecordFacts(
        {"a": known} if known is not None else {}, (), {"a": stamped}, {}, sizes={"a": size} if size is not None else {}
    )
    found = next_record("c", facts, now=NOW, keep=later(120) - NOW)
    assert (found.remembered.get("a"), "a" in found.held) == (counts, held)


def test_where_a_cluster_cannot_be_read_those_without_a_stamp_stay_so() -> None:
    facts = RecordFacts({"a": SMALL}, (), None, {}, held=frozenset({"a"}))
    assert next_record("c", facts, now=NOW, keep=later(120) - NOW).held == {"a"}


def test_what_is_written_is_read_back_and_as_ever_where_all_have_stamps() -> None:
    status = status_of({"a": SMALL, "b": LARGE, "c": SMALL}, (), held={"c"})
    found = recorded_in(MachineRecord(status=status))
    assert (found.amounts, found.held, status.unstamped) == ({"a": SMALL, "b": LARGE, "c": SMALL}, frozenset("c"), 1)
    assert status.machines[0] == "2"
    assert status_of({"a": SMALL}, ()).machines[0] == "1", "a process of the version before reads it"


def test_of_more_than_can_be_remembered_those_without_a_stamp_are() -> None:
    many = {f"{number:08d}": SMALL for number in range(MOST_REMEMBERED + 3)}
    last = max(many)
    assert recorded_in(MachineRecord(status=status_of(many, (), held={last}))).held == {last}


def test_whoever_counts_is_told_of_machines_that_are_recorded_otherwise() -> None:
    keys = {uid: Key("kube-system", uid) for uid in "abcdef"}
    before = RecordedAmounts({"a": SMALL, "b": SMALL, "c": SMALL, "d": SMALL, "x": SMALL}, frozenset("c"))
    after = RecordedAmounts({"a": SMALL, "b": LARGE, "c": SMALL, "e": SMALL, "f": SMALL, "y": SMALL}, frozenset("f"))
    found = record_changes(before, after, keys)
    assert {key.name: news for key, news in found.items()} == {"b": None, "c": None, "d": None, "e": SMALL, "f": None}


def test_conditions_name_some_and_are_told_once() -> None:
    names = [f"kube-system/m{number}" for number in range(NAMED + 2)]
    status = MachineRecordStatus()
    meta = Meta(name="c", generation=3)
    soon = conditions_of(status, RecordNews(unstamped=names, lasting=False, beyond=0), meta=meta, now=NOW)
    assert [(one.type, one.status, one.observed_generation) for one in soon] == [
        ("Stamped", "True", 3),
        ("Remembered", "True", 3),
    ]
    late = MachineRecordStatus(
        conditions=conditions_of(status, RecordNews(unstamped=names, lasting=True, beyond=4), meta=meta, now=NOW)
    )
    stamped, remembered = late.conditions
    assert "kube-system/m4; and 2 more" in stamped.message
    assert "4 machines beyond 20000 are not remembered" in remembered.message
    assert [one.type for one in newly_false(status, late)] == ["Stamped", "Remembered"]
    assert newly_false(late, late) == []
