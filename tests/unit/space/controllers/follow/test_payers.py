"""One payer for each snapshot, whoever stands for it; nobody goes before somebody else is booked in his place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import msgspec
import pytest

from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.kube.kinds import Kind, Meta
from ullage.ledger.charging.stamps import ESTIMATED_BY, FREE, Stamp
from ullage.ledger.charging.waiting import WAITING
from ullage.snapshots.api.ga.translation import GA
from ullage.space.accounts import stamp_for
from ullage.space.controllers.follow.model import BackupSide, Bearer, Cut, EngineSide, Pair, RecordSide, SnapshotSide
from ullage.space.controllers.follow.payers import payer_of, wanted, wanted_of_backup
from ullage.space.estimates import Estimate
from ullage.vms.api.backups import VM_BACKUPS

WHEN = "2026-01-01T00:00:00Z"
TEAM = "team"


def bearer(
    kind: Kind[Any], uid: str, *, stamp: Stamp | None = None, going: bool = False, namespace: str = TEAM, by: str = ""
) -> Bearer:
    return Bearer(
        kind=kind,
        meta=Meta(name=uid, uid=uid, deletion_timestamp=WHEN if going else None, annotations={ESTIMATED_BY: by} if by else {}),
        stamp=stamp,
        namespace=namespace,
    )


def snapshot(
    *, stamp: Stamp | None = None, going: bool = False, cut: bool = True, backup: str = "", uid: str = "vs", by: str = ""
) -> SnapshotSide:
    found = bearer(GA.snapshots, uid, stamp=stamp, going=going, by=by)
    return SnapshotSide(bearer=found, cut=cut, claim="disk", backup=backup, estimate=Estimate(9, "capacity"))


def record(
    *,
    stamp: Stamp | None = None,
    going: bool = False,
    policy: Literal["Delete", "Retain"] = "Delete",
    charged: bool = False,
    uid: str = "record",
) -> RecordSide:
    found = bearer(GA.records, uid, stamp=stamp, going=going, namespace=TEAM if charged else "")
    return RecordSide(bearer=found, policy=policy, namespace=TEAM)


def engine(*, stamp: Stamp | None = FREE, going: bool = False, cut: bool = True, namespace: str = TEAM) -> EngineSide:
    found = bearer(ENGINE_SNAPSHOTS, "engine", stamp=stamp, going=going, namespace=namespace)
    return EngineSide(bearer=found, cut=cut, namespace=namespace, estimate=Estimate(7, "engine-head"))


def pair(one: SnapshotSide | None, other: RecordSide | None = None, *, imported: bool = False) -> Pair:
    return Pair(snapshot=one, record=other, imported=imported)


@pytest.mark.parametrize(
    ("cut", "payer"),
    [
        pytest.param(
            Cut(pairs=(pair(snapshot(), record()),), engine=engine()), "vs", id="a VolumeSnapshot, for what it asked for"
        ),
        pytest.param(Cut(pairs=(pair(snapshot(backup="b")),), engine=engine()), "b", id="its backup, as long as that is there"),
        pytest.param(Cut(engine=engine()), "engine", id="an engine's Snapshot that nobody else stands for"),
        pytest.param(Cut(engine=engine(namespace="")), None, id="nobody, for a volume that never had a claim"),
        pytest.param(
            Cut(pairs=(pair(snapshot(going=True), record()),), engine=engine()),
            "vs",
            id="one that goes, until its data are gone",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(going=True), record(policy="Retain")),), engine=engine()),
            "record",
            id="the record, when the snapshot goes and leaves its data",
        ),
        pytest.param(
            Cut(pairs=(pair(None, record(policy="Retain", going=True)),), engine=engine()),
            "engine",
            id="the engine's Snapshot, when the record goes and leaves them too",
        ),
        pytest.param(
            Cut(pairs=(pair(None, record(going=True)),), engine=engine()), "record", id="a record that has its data deleted"
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(going=True)),), engine=engine()), "engine", id="not a snapshot that goes without a record"
        ),
        pytest.param(
            Cut(pairs=(pair(None, record(policy="Retain", going=True)),)), None, id="nobody, for what nothing tells of any more"
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(uid="import"), record(uid="other"), imported=True), pair(snapshot(), record()))),
            "vs",
            id="of two, the one that asked for it",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(uid="import"), record(uid="other"), imported=True),), engine=engine()),
            "engine",
            id="not an import, while there is an engine's Snapshot that pays",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(uid="import"), record(uid="other"), imported=True),), engine=engine(namespace="")),
            "import",
            id="an import, of a volume that never had a claim",
        ),
        pytest.param(
            Cut(
                pairs=(
                    pair(None, record(going=True)),
                    pair(snapshot(uid="import"), record(uid="other"), imported=True),
                )
            ),
            "import",
            id="an import, when the other record goes: the data stay for it",
        ),
    ],
)
def test_who_pays(cut: Cut, payer: str | None) -> None:
    found = payer_of(cut)
    assert (None if found is None else found.uid if not hasattr(found, "bearer") else found.bearer.uid) == payer


def stamps(cut: Cut) -> dict[str, str]:
    return {change.bearer.uid: str(change.stamp) for change in wanted(cut)}


TEN = str(stamp_for(10))


def waiting(side: SnapshotSide) -> SnapshotSide:
    meta = msgspec.structs.replace(side.bearer.meta, annotations={**side.bearer.meta.annotations, **WAITING})
    return replace(side, bearer=replace(side.bearer, meta=meta))


@pytest.mark.parametrize(
    ("cut", "arrived"),
    [
        pytest.param(
            Cut(pairs=(pair(waiting(snapshot(stamp=stamp_for(10))), record()),), size=10),
            {"vs": TEN},
            id="one that another controller has cut, and that takes what it was admitted with",
        ),
        pytest.param(
            Cut(pairs=(pair(waiting(snapshot(stamp=stamp_for(0))), record()),), size=0),
            {"vs": str(stamp_for(0))},
            id="one of an empty volume",
        ),
        pytest.param(
            Cut(pairs=(pair(waiting(snapshot(stamp=stamp_for(0), uid="import")), record(), imported=True),), engine=engine()),
            {"import": "{}"},
            id="an import that an engine's Snapshot pays for",
        ),
        pytest.param(
            Cut(pairs=(pair(waiting(snapshot(stamp=FREE, uid="import")), record(), imported=True),), engine=engine()),
            {"import": "{}"},
            id="an import that paid nothing before",
        ),
        pytest.param(
            Cut(pairs=(pair(waiting(snapshot(stamp=stamp_for(4), cut=False)), record()),), size=10), {}, id="not before the cut"
        ),
    ],
)
def test_what_is_cut_gives_its_waiting_place_back(cut: Cut, arrived: dict[str, str]) -> None:
    assert {change.bearer.uid: str(change.stamp) for change in wanted(cut) if change.arrived} == arrived


@pytest.mark.parametrize(
    ("cut", "changes"),
    [
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(10)), record()),), engine=engine(), size=10),
            {},
            id="nothing, when all is well",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(4)), record()),), size=10), {"vs": TEN}, id="what the storage system says"
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(4), cut=False), record()),), size=10),
            {},
            id="nothing before the cut, which is the business of whoever takes it",
        ),
        pytest.param(Cut(pairs=(pair(snapshot(), record()),), size=10), {"vs": TEN}, id="what was never stamped is"),
        pytest.param(
            Cut(pairs=(pair(snapshot(cut=False), record()),)),
            {"vs": str(stamp_for(9))},
            id="an upper bound, for what is not cut",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(10)), record()),), gone=True, size=10),
            {"vs": str(stamp_for(0))},
            id="nothing, for what is gone",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(10), going=True), record()),), gone=True),
            {"vs": "{}"},
            id="a going one is let go when its data are gone",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(10), going=True), record(policy="Retain")),), size=10),
            {"record": TEN, "vs": "{}"},
            id="the record is booked in the place of the snapshot",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(10), going=True), record(policy="Retain")),)),
            {"record": TEN, "vs": "{}"},
            id="with what was booked, where nobody knows any better",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=FREE, backup="b"), record()),), engine=engine(), size=10),
            {},
            id="a member pays nothing",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=FREE), record()),), engine=engine(), size=10),
            {"vs": TEN},
            id="a member that was orphaned pays",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(10, ["a"])), record()),), vms={TEAM: ("b", "c")}),
            {"vs": str(stamp_for(10, ["b", "c"]))},
            id="other virtual machines have the disk: the amount stays",
        ),
        pytest.param(
            Cut(engine=engine(stamp=None, namespace=TEAM, cut=False)), {"engine": str(stamp_for(7))}, id="one in an engine, too"
        ),
    ],
)
def test_what_each_takes(cut: Cut, changes: dict[str, str]) -> None:
    assert stamps(cut) == changes


@pytest.mark.parametrize(
    ("cut", "methods"),
    [
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(4), by="engine-head"), record()),), size=10, by="engine-size"),
            {"vs": "engine-size"},
            id="another amount is known in another way",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(10), by="engine-head"), record()),), size=10, by="engine-size"),
            {},
            id="the amount that was estimated is not worth a write",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(10), by="capacity"), record()),), size=10, by="allocated-blocks"),
            {"vs": "allocated-blocks"},
            id="unless it was a bound, and is known now",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(10), by="capacity"), record()),), size=10, by="restore-size"),
            {},
            id="one bound is as good as another",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(stamp=stamp_for(10), going=True, by="measured"), record(policy="Retain")),)),
            {"record": "measured", "vs": ""},
            id="whoever pays in the place of another has his amount, as it was found",
        ),
        pytest.param(
            Cut(pairs=(pair(snapshot(cut=False), record()),)), {"vs": "capacity"}, id="what was never stamped says it too"
        ),
    ],
)
def test_how_each_says_that_it_is_known(cut: Cut, methods: dict[str, str]) -> None:
    assert {change.bearer.uid: change.by for change in wanted(cut)} == methods


def backup(*, stamp: Stamp | None, going: bool = False, settled: bool = True, by: str = "") -> BackupSide:
    return BackupSide(bearer=bearer(VM_BACKUPS, "b", stamp=stamp, going=going, by=by), plan={"disk": 6}, settled=settled)


MEMBER = Cut(pairs=(pair(snapshot(stamp=FREE, backup="b"), record()),), size=10, vms={TEAM: ("db",)})


@pytest.mark.parametrize(
    ("found", "cuts", "stamp"),
    [
        pytest.param(backup(stamp=stamp_for(6)), [MEMBER, MEMBER], str(stamp_for(20, ["db"])), id="the sum of its members"),
        pytest.param(backup(stamp=stamp_for(20, ["db"])), [MEMBER, MEMBER], None, id="nothing, when all is well"),
        pytest.param(
            backup(stamp=stamp_for(6), settled=False), [MEMBER], None, id="nothing before all are cut, as it was booked then"
        ),
        pytest.param(backup(stamp=stamp_for(20), going=True), [], "{}", id="it goes when its members are gone"),
        pytest.param(
            backup(stamp=stamp_for(20), going=True),
            [Cut(pairs=(pair(snapshot(stamp=FREE), record()),), size=10)],
            "{}",
            id="or have become somebody else's",
        ),
        pytest.param(
            backup(stamp=stamp_for(1)),
            [Cut(pairs=(pair(snapshot(stamp=FREE, backup="b"), record()),))],
            str(stamp_for(6)),
            id="what was planned, for a member whose size is not known",
        ),
    ],
)
def test_what_a_backup_takes(found: BackupSide, cuts: list[Cut], stamp: str | None) -> None:
    change = wanted_of_backup(found, cuts)
    assert (None if change is None else str(change.stamp)) == stamp


@pytest.mark.parametrize(
    ("found", "by"),
    [
        pytest.param(backup(stamp=stamp_for(6), by="engine-head"), "measured", id="as the worst of its members"),
        pytest.param(backup(stamp=stamp_for(30, ["db"]), by="capacity"), "measured", id="which is better than a bound"),
        pytest.param(backup(stamp=stamp_for(30, ["db"]), by="engine-head"), None, id="else it is not worth a write"),
    ],
)
def test_how_a_backup_says_that_it_is_known(found: BackupSide, by: str | None) -> None:
    cuts = [replace(MEMBER, by=one) for one in ("engine-size", "measured", "engine-size")]
    change = wanted_of_backup(found, cuts)
    assert (None if change is None else change.by) == by


# --- what an administrator has given to another namespace -------------------------------------------------------------


def given(*, stamp: Stamp | None = None, going: bool = False, gone: bool = False, uid: str = "given") -> Pair:
    own = bearer(GA.snapshots, uid, stamp=stamp, going=going, namespace="consumer")
    held = RecordSide(bearer=bearer(GA.records, f"{uid}-record", namespace=""), policy="Delete", namespace="consumer")
    side = SnapshotSide(bearer=own, cut=True)
    return Pair(snapshot=None if gone else side, record=held, imported=True, shared=True)


def changes_of(cut: Cut) -> dict[str, Stamp]:
    return {one.bearer.uid: one.stamp for one in wanted(cut)}


def test_who_was_given_a_snapshot_pays_for_it_beside_the_one_that_it_is_from() -> None:
    assert changes_of(Cut(pairs=(pair(snapshot(), record()), given()), size=5)) == {"vs": stamp_for(5), "given": stamp_for(5)}


def test_when_the_source_goes_whoever_was_given_it_goes_on_paying_and_nobody_else() -> None:
    going = pair(snapshot(going=True, stamp=stamp_for(5)), record(going=True))
    assert changes_of(Cut(pairs=(going, given(stamp=stamp_for(5))), size=5)) == {"vs": FREE}
    left = Cut(pairs=(given(stamp=stamp_for(5)),), engine=engine(stamp=stamp_for(5)), size=5)
    assert changes_of(left) == {"engine": FREE}, "the namespace of the volume does not pay for what another one keeps"
    assert payer_of(left) is None


def test_when_it_is_taken_back_the_source_pays_alone() -> None:
    cut = Cut(pairs=(pair(snapshot(stamp=stamp_for(5)), record()), given(stamp=stamp_for(5), going=True)), size=5)
    assert changes_of(cut)["given"] == FREE
    assert "vs" not in changes_of(cut)


def test_several_that_were_given_it_pay_each() -> None:
    cut = Cut(pairs=(given(), given(uid="second")), engine=engine(stamp=FREE), size=5)
    assert changes_of(cut) == {"given": stamp_for(5), "second": stamp_for(5)}
