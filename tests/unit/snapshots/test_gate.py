"""When a snapshot that waits for a word may be cut, how often it is measured while it waits; and the real controllers at it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.snapshots.charged_api import MIB, ChargedApi, stamp
from tests.unit.snapshots.memory_api import Json
from tests.unit.snapshots.test_before_cut import asked, notes, takes
from tests.unit.snapshots.test_lifecycle import DRIVER, Cluster
from ullage.errors import Impossible, NotNow
from ullage.kube.builtin import core
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Meta, OwnerReference
from ullage.kube.slices import Wiring
from ullage.ledger.charging.stamps import FREE, STAMP
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.controllers.record_book import RecordBooker
from ullage.snapshots.gate import Estimate, Gate, estimate_of, gate_of, written
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import BOOKED, CUT, ESTIMATE, GO, HOLD, NO
from ullage.snapshots.settings import Settings

NOW = datetime(2026, 1, 1, 0, 0, 20, 500000, tzinfo=UTC)
AT = "2026-01-01T00:00:12.500000Z"  # 8 s before
OLD = "2026-01-01T00:00:10.500000Z"  # 10 s before


# --- the rules -------------------------------------------------------------------------------------------------------


def meta(*, stamped: str | None = None, word: str = "", owned: bool = True) -> Meta:
    owners = (
        (OwnerReference(api_version="v1", kind="VirtualMachineBackup", name="b", uid="u", controller=True),) if owned else ()
    )
    given = {STAMP: stamped, CUT: word}
    return Meta(annotations={key: value for key, value in given.items() if value}, owner_references=owners)


@pytest.mark.parametrize(
    ("snapshot", "books", "group"),
    [
        pytest.param(meta(), True, None, id="nobody is charged: no gate"),
        pytest.param(meta(stamped=stamp(5)), True, None, id="who may book needs no word"),
        pytest.param(meta(stamped=stamp(0)), False, False, id="who may not waits, also for one that takes nothing as yet"),
        pytest.param(meta(stamped=str(FREE)), False, None, id="what another pays for needs no booking"),
        pytest.param(meta(stamped=str(FREE), word=HOLD), True, True, id="a held one waits for its group"),
        pytest.param(meta(stamped=str(FREE), word=f"{GO}{AT}"), False, True, id="so does one that was told once"),
        pytest.param(meta(word=HOLD), True, True, id="a group waits though nobody is charged"),
        pytest.param(meta(stamped=stamp(5), word=HOLD), False, True, id="a group is booked by whoever holds it"),
        pytest.param(meta(stamped=str(FREE), word=HOLD, owned=False), True, True, id="an orphan that pays nothing is not cut"),
        pytest.param(meta(stamped=stamp(5), word=HOLD, owned=False), True, None, id="one that pays for itself is"),
        pytest.param(meta(stamped=stamp(5), word=f"{BOOKED}{AT}"), True, None, id="a driver may come back from its sidecar"),
    ],
)
def test_who_waits_for_a_word(snapshot: Meta, books: bool, group: bool | None) -> None:
    found = gate_of(snapshot, Meta(), books=books)
    assert (None if found is None else found.group) == group


@pytest.mark.parametrize(
    ("word", "group", "opens", "refusal"),
    [
        pytest.param(HOLD, True, False, "", id="held"),
        pytest.param(f"{GO}{AT}", True, True, "", id="told to go"),
        pytest.param(f"{GO}{OLD}", True, False, "", id="told about an earlier estimate"),
        pytest.param(f"{BOOKED}{AT}", True, False, "", id="a word for one that is cut alone opens no group"),
        pytest.param(f"{BOOKED}{AT}", False, True, "", id="booked"),
        pytest.param(f"{NO}{AT} does not fit: all", False, False, "does not fit: all", id="refused, with the numbers"),
        pytest.param(f"{NO}{OLD} does not fit: all", False, False, "", id="an earlier estimate was refused"),
        pytest.param("", False, False, "", id="nothing said yet"),
    ],
)
def test_a_word_is_about_one_estimate(word: str, group: bool, opens: bool, refusal: str) -> None:
    gate = Gate(group=group, word=word, estimate=Estimate(5, AT))
    assert (gate.open, gate.refusal) == (opens, refusal)


@pytest.mark.parametrize(
    ("at", "waited", "seconds"),
    [
        pytest.param(None, 1, 0, id="never measured: now"),
        pytest.param("2026-01-01T00:00:18.500000Z", 60, 3, id="5 s after the last time"),
        pytest.param(AT, 60, 0, id="that is over: now"),
        pytest.param(AT, 601, 39.5, id="after 10 minutes at the next full minute, when all of its group are"),
        pytest.param("2025-12-31T23:59:59.000000Z", 3600, 0, id="a minute has begun since: now"),
        pytest.param("2026-01-01T00:01:00.000000Z", 60, 0, id="another machine's clock was ahead: now"),
        pytest.param("yesterday", 60, 0, id="no time: now"),
    ],
)
def test_how_often_one_that_waits_is_measured(at: str | None, waited: float, seconds: float) -> None:
    estimate = Estimate(5, at) if at is not None else None
    assert Gate(group=True, estimate=estimate).measure_after(NOW, NOW - timedelta(seconds=waited)) == seconds


@pytest.mark.parametrize(
    ("at", "fresh"),
    [
        pytest.param(AT, True, id="8 s old"),
        pytest.param(OLD, False, id="10 s old"),
        pytest.param("2026-01-01T00:00:21Z", False, id="of a time to come"),
        pytest.param("", False, id="of no time"),
    ],
)
def test_an_estimate_is_fresh_for_ten_seconds(at: str, fresh: bool) -> None:
    assert Estimate(5, at).is_fresh(NOW) is fresh


@pytest.mark.parametrize("text", ["", "5", "{}", '{"bytes":-1,"at":"x"}', '{"bytes":"many","at":"x"}', "\ud800"])
def test_an_estimate_that_cannot_be_read_is_none(text: str) -> None:
    assert estimate_of(Meta(annotations={ESTIMATE: text})) is None


def test_an_estimate_is_read_as_it_was_written() -> None:
    text = written(4096, NOW, group=True, by="measured")
    assert text == '{"bytes":4096,"at":"2026-01-01T00:00:20.500000Z","group":true,"by":"measured"}'
    found = estimate_of(Meta(annotations={ESTIMATE: text}))
    assert found == Estimate(4096, "2026-01-01T00:00:20.500000Z", group=True, by="measured")


# --- a group ---------------------------------------------------------------------------------------------------------


class Group(Cluster):
    """Two volumes, and a snapshot of each that is held; the test is whoever holds them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.driver.head = MIB
        ref = {"namespace": "team", "name": "logs", "uid": "uid-logs"}
        spec: Json = {"claimRef": ref, "csi": {"driver": DRIVER, "volumeHandle": "vol-2"}, "storageClassName": "fast"}
        self.api.put(core.PERSISTENT_VOLUMES, {"metadata": {"name": "pv-2"}, "spec": spec, "status": {"phase": "Bound"}})
        wanted = {"volumeName": "pv-2", "storageClassName": "fast"}
        claim = {"metadata": {"name": "logs", "namespace": "team"}, "spec": wanted, "status": {"phase": "Bound"}}
        self.api.put(core.CLAIMS, claim)
        self.hold("one", "db")
        self.hold("two", "logs")

    def hold(self, name: str, claim: str) -> None:
        self.ask(name, claim=claim)
        owner = {"apiVersion": "v1", "kind": "Backup", "name": "b", "uid": "uid-b", "controller": True}
        notes = {STAMP: str(FREE), CUT: HOLD}
        self.api.edit(GA.snapshots, name, "team", merge={"metadata": {"annotations": notes, "ownerReferences": [owner]}})

    def estimate(self, name: str) -> Estimate | None:
        body = self.api.body(GA.records, f"snapcontent-uid-{name}")
        return estimate_of(Meta(annotations=body["metadata"].get("annotations", {}))) if body is not None else None

    def measured(self, *names: str) -> bool:
        return all(self.estimate(one) is not None for one in names or ("one", "two"))

    def go(self, *names: str) -> None:
        for name in names or ("one", "two"):
            found = self.estimate(name)
            assert found is not None
            self.api.edit(GA.snapshots, name, "team", merge={"metadata": {"annotations": {CUT: f"{GO}{found.at}"}}})


async def test_no_member_is_cut_before_all_are_told() -> None:
    group = Group(GA)
    await group.live(group.measured)
    found = group.estimate("one")
    assert found is not None
    assert (found.bytes, found.group) == (MIB, True)
    assert asked(group) == 0
    group.go()
    await group.live(lambda: group.ready("one") and group.ready("two"))
    assert group.driver.made == 2


async def test_one_that_waits_says_so_and_holds_up_no_other_snapshot_of_its_volume() -> None:
    group = Group(GA)
    await group.live(group.measured)
    group.api.edit(GA.snapshots, "one", "team", merge={"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}})
    await group.live(
        lambda: ("Normal", "SnapshotWaiting", "waits until all volumes of the backup are ready to be cut") in group.told.events
    )
    group.ask("other")
    await group.live(lambda: group.ready("other"))
    assert not group.ready("one")
    group.go()
    await group.live(lambda: group.ready("one") and group.ready("two"))


async def test_a_member_whose_volume_is_busy_is_not_ready() -> None:
    group = Group(GA)
    for name in ("one", "two"):
        group.api.remove(GA.snapshots, name, "team")
    group.driver.gate.clear()
    group.ask("first")
    async with group.running():
        async with asyncio.timeout(10):
            await group.driver.begun.wait()
        group.hold("three", "db")
        group.hold("four", "logs")
        await group.api.until(lambda: group.measured("four"))
        assert group.estimate("three") is None
        group.driver.gate.set()
        await group.api.until(lambda: group.measured("three"))


async def test_two_groups_of_the_same_volumes_do_not_wait_for_each_other() -> None:
    group = Group(GA)
    group.hold("three", "db")
    group.hold("four", "logs")
    await group.live(lambda: group.measured("one", "two", "three", "four"))
    group.go("three", "four")
    await group.live(lambda: group.ready("three") and group.ready("four"))
    group.go("one", "two")
    await group.live(lambda: group.ready("one") and group.ready("two"))


async def test_one_that_has_grown_since_an_old_estimate_waits_for_the_next_word(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(GA)
    await group.live(group.measured)
    old = '{"bytes":1048576,"at":"2026-01-01T00:00:00.000000Z","group":true}'
    for name in ("one", "two"):
        record = f"snapcontent-uid-{name}"
        group.api.edit(GA.records, record, merge={"metadata": {"annotations": {ESTIMATE: old}}})
    group.go()

    async def estimate(volume: Any, *, owner: str) -> int:
        return 5 * MIB if volume.handle == "vol-1" else MIB

    monkeypatch.setattr(group.driver, "estimate", estimate)
    await group.live(lambda: group.ready("two") and (found := group.estimate("one")) is not None and found.bytes == 5 * MIB)
    assert not group.ready("one")
    group.go("one")
    await group.live(lambda: group.ready("one"))


async def test_a_process_may_die_before_and_after_every_effect_of_a_group() -> None:
    moment = 0
    while True:
        moment += 1
        group = Group(GA)
        group.api.fuse.blows_at = moment
        await group.live(group.measured)
        assert asked(group) == 0
        group.go()
        await group.live(lambda group=group: group.ready("one") and group.ready("two"))  # type: ignore[misc]
        assert group.driver.made == 2, group.api.fuse.log
        if group.api.fuse.passed < moment:
            return


async def test_an_error_that_is_over_does_not_stand_on_one_that_waits() -> None:
    group = Group(GA)
    group.api.remove(GA.classes, "daily")
    group.driver.measured = _once(NotNow("the node is away"))
    group.api.put(
        GA.classes,
        {
            "metadata": {"name": "daily", "annotations": {"snapshot.storage.kubernetes.io/is-default-class": "true"}},
            "driver": DRIVER,
            "deletionPolicy": "Delete",
        },
    )
    await group.live(lambda: "the node is away" in group.problem("one") + group.problem("two"))
    await group.live(lambda: group.measured() and not group.problem("one") + group.problem("two"))


def _once(error: Exception) -> Any:
    left = [error]

    def outcome() -> None:
        if left:
            raise left.pop()

    return outcome


# --- a sidecar -------------------------------------------------------------------------------------------------------


class Sidecar(Cluster):
    """The driver is called by a process whose stamps nobody believes; the controller books for it."""

    books = False

    def more(self, wiring: Wiring, lookups: list[SnapshotLookup]) -> list[Controller[Any]]:
        settings = Settings(drivers={DRIVER: "sidecar"}, alone=self.alone)
        return [RecordBooker(wiring.client, lookups, settings=settings).controller()]


def sidecar(*, head: int | None, limit: int = 10 * MIB) -> Sidecar:
    cluster = Sidecar(GA, api=ChargedApi(limit))
    cluster.ask()
    cluster.api.edit(GA.snapshots, "snap", "team", merge={"metadata": {"annotations": {STAMP: stamp(4 * MIB)}}})
    cluster.driver.head = head
    return cluster


@pytest.mark.parametrize(
    "head", [pytest.param(8 * MIB, id="grown"), pytest.param(MIB, id="shrunk"), pytest.param(4 * MIB, id="as admitted")]
)
async def test_the_controller_books_what_a_sidecar_has_measured(head: int) -> None:
    cluster = sidecar(head=head)
    await cluster.live(cluster.done)
    assert takes(cluster) == head
    assert cluster.snapshot().meta.annotations[CUT].startswith(BOOKED)
    await cluster.live(lambda: ESTIMATE not in notes(cluster))


async def test_what_a_driver_cannot_tell_needs_no_booking() -> None:
    cluster = sidecar(head=None)
    await cluster.live(cluster.done)
    assert takes(cluster) == 4 * MIB
    assert CUT not in cluster.snapshot().meta.annotations


async def test_a_refusal_reaches_the_sidecar_with_its_numbers_and_nothing_stays_booked() -> None:
    cluster = sidecar(head=11 * MIB)
    await cluster.live(lambda: bool(cluster.problem()) and takes(cluster) == 0 and cluster.free())
    assert cluster.snapshot().state.problem.reason == "SnapshotSpaceExceeded"
    assert cluster.problem() == (
        "a snapshot of the volume takes 11Mi by now, which does not fit: snapshots/namespace storage: "
        f"asked {11 * MIB}, used 0, limit {10 * MIB}"
    )
    assert asked(cluster) == 0
    cluster.driver.head = 2 * MIB
    cluster.api.edit(GA.snapshots, "snap", "team", merge={"metadata": {"labels": {"try": "again"}}})
    await cluster.live(cluster.done)
    assert takes(cluster) == 2 * MIB


async def test_what_a_driver_refuses_for_good_costs_nothing_in_a_sidecar_either() -> None:
    cluster = sidecar(head=MIB)
    cluster.driver.refuses = lambda creation: (_ for _ in ()).throw(Impossible("no such volume"))
    await cluster.live(lambda: "no such volume" in cluster.problem() and takes(cluster) == 0)


async def test_sidecar_and_controller_may_die_before_and_after_every_effect() -> None:
    moment = 0
    while True:
        moment += 1
        cluster = sidecar(head=8 * MIB, limit=8 * MIB)
        cluster.api.fuse.blows_at = moment
        await cluster.live(cluster.done)
        log = cluster.api.fuse.log
        assert (cluster.driver.made, takes(cluster)) == (1, 8 * MIB), log
        if cluster.api.fuse.passed < moment:
            return


async def test_a_member_that_is_larger_when_it_is_cut_waits_until_that_is_booked_too() -> None:
    group = Group(GA)
    await group.live(group.measured)
    group.driver.before = lambda: setattr(group.driver, "head", 9 * MIB)  # written between the measurement and the cut
    group.go()
    await group.live(
        lambda: all((found := group.estimate(one)) is not None and found.bytes == 9 * MIB for one in ("one", "two"))
    )
    assert not group.ready("one")
    assert not group.ready("two")
    assert "'shot-" not in str(group.api.body(GA.records, "snapcontent-uid-one")), "no handle was told"
    group.go()
    await group.live(lambda: group.ready("one") and group.ready("two"))
    assert group.driver.made == 2


async def test_a_member_that_is_larger_when_it_is_cut_and_not_booked_leaves_nothing() -> None:
    group = Group(GA)
    await group.live(group.measured)
    group.driver.before = lambda: setattr(group.driver, "head", 9 * MIB)
    group.go()
    await group.live(lambda: len(group.driver.names) == 2)
    for name in ("one", "two"):
        group.delete(name)
    await group.live(lambda: group.api.body(GA.records, "snapcontent-uid-one") is None)
    await group.live(lambda: group.driver.names == {})


async def test_what_a_sidecar_has_cut_too_large_is_refused_and_undone() -> None:
    cluster = sidecar(head=MIB)
    cluster.driver.before = lambda: setattr(cluster.driver, "head", 11 * MIB)
    await cluster.live(lambda: bool(cluster.problem()) and takes(cluster) == 0)
    assert cluster.problem().startswith("a snapshot of the volume takes 11Mi by now, which does not fit: ")
    await cluster.live(lambda: cluster.driver.names == {})


async def test_what_a_sidecar_has_cut_larger_is_booked_before_it_is_told() -> None:
    cluster = sidecar(head=MIB)
    cluster.driver.before = lambda: setattr(cluster.driver, "head", 9 * MIB)
    await cluster.live(cluster.done)
    assert (cluster.driver.made, takes(cluster)) == (1, 9 * MIB)
    assert cluster.api.most <= 10 * MIB  # type: ignore[attr-defined]
