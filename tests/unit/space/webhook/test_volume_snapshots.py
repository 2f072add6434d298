"""VolumeSnapshots of both APIs: what they take, what does not fit, and who tries to get round it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from tests.unit.space.scene import (
    ENGINE_NS,
    OURS,
    PERSON,
    TEAM,
    Scene,
    engine_snapshot,
    import_of,
    record_of,
    simulated,
    snapshot_of,
    unsplit,
)
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, Engine, EngineSpec, EngineStatus, SnapshotInfo
from ullage.engines.chain import HEAD
from ullage.errors import Retryable
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.charging.waiting import MOST_WAITING
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import SHARED_BY, Dialect
from ullage.space.webhook.hooks import PART

BOTH = pytest.mark.parametrize("dialect", [pytest.param(GA, id="GA"), pytest.param(PROTOTYPE, id="prototype")])
AnyDialect = Dialect[Any, Any]
FREE, HUGE = "{}", '{"snapshots/namespace":{"storage":"1Ei"}}'


# --- what waits ------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    "claim",
    [
        pytest.param("nothing", id="claims that are not there"),
        pytest.param("pending", id="a claim that is never bound"),
        pytest.param("thief", id="a claim that names the volume of another"),
    ],
)
@simulated
async def test_snapshots_that_have_no_volume_take_places_of_one_account_that_has_a_limit(
    scene: Scene, dialect: AnyDialect, claim: str
) -> None:
    scene.claim("disk", head=1)
    scene.claim("theirs", namespace="other", volume="pv-theirs", head=1)
    scene.claim("pending", bound=False, capacity="1", volume="")
    scene.claim("thief", bound=False, capacity="1", volume="pv-theirs")
    async with scene.served():
        seconds = 0
        made = 0
        while made < MOST_WAITING:
            decided = await scene.submit(dialect.snapshots, snapshot_of(dialect, f"w-{made}", claim))
            if decided.allowed:
                made += 1
                continue
            assert decided.code == 429, decided.message  # the ledger was just made, and is being counted
            seconds += 1
            assert seconds < 60
            await asyncio.sleep(1)
        refused = await scene.submit(dialect.snapshots, snapshot_of(dialect, "one-more", claim))
        assert refused.code == 403
        assert "snapshots-waiting/namespace snapshots: asked 1, " in refused.message
        assert f"limit {MOST_WAITING}, over by 1" in refused.message
        assert (await scene.submit(dialect.snapshots, snapshot_of(dialect, "good", "disk"))).allowed, "its claim is there"
        # One whose claim comes gives its place back with what is booked before the cut; people cannot.
        refused = await scene.annotate(dialect.snapshots, "w-0", waits_for_source=None)
        assert scene.marks(dialect.snapshots, "w-0")["waits-for-source"] == "true", refused.message
        arrived = {"waits_for_source": "false", "takes": '{"snapshots/namespace":{"storage":"1"}}'}
        assert (await scene.annotate(dialect.snapshots, "w-0", user=OURS, **arrived)).allowed
        assert (await scene.submit(dialect.snapshots, snapshot_of(dialect, "one-more", claim))).allowed


@simulated
async def test_the_limit_on_those_that_wait_comes_though_no_cache_has_heard_of_them(scene: Scene) -> None:
    async with scene.served():
        scene.server.watch_lag = lambda: 3600.0
        for number in range(MOST_WAITING // PART):
            assert (await scene.submit(GA.snapshots, snapshot_of(GA, f"w-{number}", "nothing"))).allowed
        assert scene.server.get(LEDGERS, Key(NAMESPACE, f"ns-{TEAM}")) is None
        with contextlib.suppress(Retryable):  # nobody has counted yet
            await scene.submit(GA.snapshots, snapshot_of(GA, "next", "nothing"))
    ledger = scene.server.get(LEDGERS, Key(NAMESPACE, f"ns-{TEAM}"))
    assert ledger is not None
    assert ledger.spec.limits == {"snapshots-waiting/namespace": {"snapshots": str(MOST_WAITING)}}


@simulated
async def test_a_few_now_and_then_need_no_ledger_however_many_have_come_and_gone(scene: Scene) -> None:
    async with scene.served():
        scene.server.watch_lag = lambda: 3600.0
        for number in range(3 * MOST_WAITING // PART):
            assert (await scene.submit(GA.snapshots, snapshot_of(GA, f"w-{number}", "nothing"))).allowed
            await asyncio.sleep(3.0)
    assert scene.server.get(LEDGERS, Key(NAMESPACE, f"ns-{TEAM}")) is None


@BOTH
@simulated
async def test_what_is_estimated_by_the_last_snapshot_says_what_it_may_take_and_nobody_else_writes_that(
    scene: Scene, dialect: AnyDialect
) -> None:
    used = '{"bytes":1024,"at":"2026-01-01T00:00:00Z","by":"last-snapshot"}'
    scene.claim("disk", used=used, capacity="8Ki", driver="csi.example.com")
    scene.limits(all=1024)
    async with scene.served():
        assert (await scene.submit(dialect.snapshots, snapshot_of(dialect, "a", "disk", takes_at_most="1024"))).allowed
        refused = await scene.submit(dialect.snapshots, snapshot_of(dialect, "b", "disk"))
        assert refused.code == 403
        assert "what is asked is what the last snapshot of the volume took, as its StorageClass wants it" in refused.message
        assert (await scene.annotate(dialect.snapshots, "a", takes_at_most="1024")).allowed, "it is put back"
    marks = scene.marks(dialect.snapshots, "a")
    assert (marks["estimated-by"], marks["takes-at-most"]) == ("last-snapshot", "8192")


@simulated
async def test_a_few_snapshots_that_wait_need_no_ledger(scene: Scene) -> None:
    async with scene.served():
        for number in range(5):
            assert (await scene.submit(GA.snapshots, snapshot_of(GA, f"w-{number}", "nothing"))).allowed
    assert scene.server.get(LEDGERS, Key(NAMESPACE, f"ns-{TEAM}")) is None


# --- limits ----------------------------------------------------------------------------------------------------------


@BOTH
@simulated
async def test_exactly_full_is_allowed_and_one_byte_over_is_refused(scene: Scene, dialect: AnyDialect) -> None:
    scene.limits(all=8192)
    scene.claim("disk", head=4096)
    scene.claim("tiny", head=1)
    async with scene.served():
        for name in ("a", "b"):
            assert (await scene.submit(dialect.snapshots, snapshot_of(dialect, name, "disk"))).allowed
        refused = await scene.submit(dialect.snapshots, snapshot_of(dialect, "c", "tiny"))
    assert refused.code == 403
    assert unsplit(refused.message) == (
        "does not fit: snapshots/namespace storage: asked 1 byte, …, limit 8Ki, over by 1 byte. "
        f"Next: delete snapshots that are not needed any more (kubectl get volumesnapshots.{dialect.snapshots.group} -n team), "
        "or have the limit raised"
    )


def _rewritten(scene: Scene, *, merged: str) -> None:
    """6 KiB that a removed snapshot has, and 6 KiB that were written since."""
    scene.claim("disk", head=0)
    entries = {
        HEAD: SnapshotInfo(name=HEAD, size="6144", parent="gone", mergedsize=merged),
        "gone": SnapshotInfo(name="gone", size="6144", removed=True, usercreated=True),
    }
    meta, spec = Meta(name="pv-disk-e-0", namespace=ENGINE_NS, uid="uid-e"), EngineSpec(volume_name="pv-disk", active=True)
    scene.server.put(ENGINES, Engine(metadata=meta, spec=spec, status=EngineStatus(snapshots=entries)))


@BOTH
@simulated
async def test_a_rewritten_volume_costs_each_block_once_where_the_engine_tells(scene: Scene, dialect: AnyDialect) -> None:
    scene.limits(all=10240)
    _rewritten(scene, merged="6144")
    async with scene.served():
        assert (await scene.submit(dialect.snapshots, snapshot_of(dialect, "a", "disk"))).allowed


@simulated
async def test_a_sum_that_may_be_too_much_is_said_to_be_and_when_it_is_tried_again(scene: Scene) -> None:
    scene.limits(all=10240)
    _rewritten(scene, merged="")
    async with scene.served():
        refused = await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))
    assert refused.code == 403
    assert "asked 12Ki" in refused.message
    assert (
        "Note: 6Ki of what is asked are of removed snapshots and may be blocks that were written anew since: the engine tells"
        " only sizes, so the sum counts until its next purge. Ask again after that;"
    ) in refused.message


@simulated
async def test_that_the_capacity_counts_is_said(scene: Scene) -> None:
    scene.limits(all=10240)
    scene.claim("disk")
    async with scene.served():
        refused = await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))
    assert refused.code == 403
    assert "Note: what is asked is the capacity of a volume, since nothing tells what is in it" in refused.message


@simulated
async def test_an_unchanged_volume_costs_its_head_and_is_allowed_at_the_limit(scene: Scene) -> None:
    scene.limits(all=4096)
    scene.claim("disk", head=4096)
    scene.claim("still", head=0)
    async with scene.served():
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))).allowed
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "b", "still"))).allowed
    assert scene.takes(GA.snapshots, "b") == {"namespace": "0"}, "it has its account: it may grow before the cut"


@simulated
async def test_the_virtual_machine_is_told_first_and_then_the_namespace(scene: Scene) -> None:
    scene.limits(all=4096, db=1024)
    scene.claim("disk", head=5000)
    scene.vm("db", "disk")
    async with scene.served():
        refused = await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))
    assert refused.message.startswith(
        "does not fit: snapshots/vm/db storage: asked 4.89Ki, used 0, reserved 0, limit 1Ki, over by 3.89Ki; "
        "snapshots/namespace storage: asked 4.89Ki, used 0, reserved 0, limit 4Ki, over by 904 bytes. Next: "
    )


@simulated
async def test_virtual_machines_that_share_a_claim_all_pay_and_the_namespace_once(scene: Scene) -> None:
    scene.limits(all=4096, second=4095)
    scene.claim("disk", head=4096)
    scene.vm("first", "disk")
    async with scene.served():
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))).allowed
    assert scene.takes(GA.snapshots, "a") == {"namespace": "4Ki", "vm/first": "4Ki"}
    scene.vm("second", "disk", "other")
    async with scene.served():
        refused = await scene.submit(GA.snapshots, snapshot_of(GA, "b", "disk"))
    assert "snapshots/vm/second storage: asked 4Ki" in refused.message


@simulated
async def test_more_limited_virtual_machines_on_a_claim_than_can_be_charged_is_refused(scene: Scene) -> None:
    names = [f"vm-{number}" for number in range(17)]
    scene.limits(vms=dict.fromkeys(names, 10))
    scene.claim("disk", head=1)
    for name in names:
        scene.vm(name, "disk")
    async with scene.served():
        refused = await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))
    assert refused.code == 403
    assert "17 virtual machines that have a limit reference the claim, and 16 can be charged" in refused.message


@simulated
async def test_where_nothing_is_limited_all_is_allowed_and_stamped(scene: Scene) -> None:
    scene.claim("disk", head=4096)
    async with scene.served():
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))).allowed
    assert scene.marks(GA.snapshots, "a") == {
        "takes": '{"snapshots/namespace":{"storage":"4Ki"}}',
        "estimated-by": "engine-head",
    }


# --- what is measured ------------------------------------------------------------------------------------------------


@simulated
async def test_of_two_engines_the_active_one_counts(scene: Scene) -> None:
    scene.limits(all=4096)
    scene.claim("disk", head=4096)
    scene.engine("pv-disk", 9999, name="pv-disk-e-1", active=False)
    async with scene.served():
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))).allowed
    assert scene.takes(GA.snapshots, "a") == {"namespace": "4Ki"}


@simulated
async def test_other_storage_costs_what_was_measured_and_else_its_capacity(scene: Scene) -> None:
    scene.claim("seen", used='{"bytes":700,"at":"2026-01-01T00:00:00Z","by":"allocated-blocks"}', driver="csi.example.com")
    scene.claim("unseen", capacity="3Mi", driver="csi.example.com")
    async with scene.served():
        for name in ("seen", "unseen"):
            assert (await scene.submit(GA.snapshots, snapshot_of(GA, name, name))).allowed
    assert (scene.takes(GA.snapshots, "seen"), scene.marks(GA.snapshots, "seen")["estimated-by"]) == (
        {"namespace": "700"},
        "allocated-blocks",
    )
    assert (scene.takes(GA.snapshots, "unseen"), scene.marks(GA.snapshots, "unseen")["estimated-by"]) == (
        {"namespace": "3Mi"},
        "capacity",
    )


@BOTH
@pytest.mark.parametrize(
    ("state", "shown", "asked"),
    [
        pytest.param("stopped", False, "9Ki", id="never attached: nobody pays for what it was made with"),
        pytest.param("stopped", True, "1Ki", id="detached again: an object pays for that"),
        pytest.param("running", False, "1Ki", id="attached: that object comes now"),
    ],
)
@simulated
async def test_a_restored_volume_costs_the_whole_chain_until_an_object_pays_for_what_it_was_made_with(
    scene: Scene, dialect: AnyDialect, state: str, shown: bool, asked: str
) -> None:
    scene.claim("disk", capacity="32Ki")
    entries = {
        HEAD: SnapshotInfo(name=HEAD, size="1024", parent="made-with"),
        "made-with": SnapshotInfo(name="made-with", size="8192"),
    }
    meta, spec = Meta(name="pv-disk-e-0", namespace=ENGINE_NS, uid="uid-e"), EngineSpec(volume_name="pv-disk", active=True)
    scene.server.put(ENGINES, Engine(metadata=meta, spec=spec, status=EngineStatus(current_state=state, snapshots=entries)))
    if shown:
        scene.store(
            ENGINE_SNAPSHOTS, {**engine_snapshot("made-with"), "metadata": {"name": "made-with", "namespace": ENGINE_NS}}
        )
    async with scene.served():
        assert (await scene.submit(dialect.snapshots, snapshot_of(dialect, "a", "disk"))).allowed
    assert scene.takes(dialect.snapshots, "a")["namespace"] == asked


@BOTH
@simulated
async def test_claims_that_wait_are_missing_or_name_what_is_not_theirs_cause_no_error(
    scene: Scene, dialect: AnyDialect
) -> None:
    scene.claim("theirs", namespace="other", volume="pv-theirs", head=77)
    scene.claim("waiting", bound=False, capacity="2Mi", volume="none-such")
    scene.claim("thief", bound=False, capacity="1Mi", volume="pv-theirs")
    async with scene.served():
        for name in ("waiting", "thief", "missing"):
            assert (await scene.submit(dialect.snapshots, snapshot_of(dialect, name, name))).allowed
    found = {name: scene.takes(dialect.snapshots, name)["namespace"] for name in ("waiting", "thief", "missing")}
    assert found == {"waiting": "2Mi", "thief": "1Mi", "missing": "0"}


@simulated
async def test_a_claim_that_the_cache_has_not_heard_of_is_asked_for(scene: Scene) -> None:
    async with scene.served():
        scene.server.watch_lag = lambda: 60.0
        scene.claim("disk", capacity="5Mi", driver="csi.example.com")
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))).allowed
    assert scene.takes(GA.snapshots, "a") == {"namespace": "5Mi"}


# --- whoever wants to pay less ---------------------------------------------------------------------------------------


@BOTH
@simulated
async def test_marks_that_a_person_brings_along_are_replaced_or_taken_off(scene: Scene, dialect: AnyDialect) -> None:
    scene.claim("disk", head=4096)
    forged = {"takes": FREE, "charged_namespace": "other", "plan": '{"disk":1}', "cut": "go@x", "estimated_by": "me"}
    async with scene.served():
        assert (await scene.submit(dialect.snapshots, snapshot_of(dialect, "a", "disk", **forged))).allowed
    assert scene.marks(dialect.snapshots, "a") == {
        "takes": '{"snapshots/namespace":{"storage":"4Ki"}}',
        "estimated-by": "engine-head",
    }


@pytest.mark.parametrize("going", [pytest.param(False, id="that stands"), pytest.param(True, id="that is going")])
@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"takes": FREE}, id="pays nothing"),
        pytest.param({"takes": None, "estimated_by": None}, id="drops the marks, as kubectl replace does"),
        pytest.param({"takes": "garbage"}, id="breaks the stamp"),
        pytest.param({"charged_namespace": "other"}, id="has another namespace pay"),
        pytest.param({"cut": "go@2026-01-01T00:00:00Z"}, id="has it cut"),
        pytest.param({"plan": '{"disk":0}'}, id="writes a plan"),
    ],
)
@simulated
async def test_edits_of_the_marks_are_put_back_on_an_object(scene: Scene, forged: dict[str, str | None], going: bool) -> None:
    scene.claim("disk", head=4096)
    async with scene.served():
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))).allowed
        if going:
            scene.change(GA.snapshots, "a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        before = scene.marks(GA.snapshots, "a")
        assert (await scene.annotate(GA.snapshots, "a", TEAM, user=PERSON, **forged)).allowed
    assert scene.marks(GA.snapshots, "a") == before


@pytest.mark.parametrize(
    "user",
    [
        pytest.param("system:serviceaccount:team:controller", id="of his own namespace"),
        pytest.param("system:serviceaccount:ullage-system:controllers", id="of nearly our name"),
        pytest.param("system:serviceaccount:longhorn-system:longhorn-service-account", id="of Longhorn"),
    ],
)
@simulated
async def test_another_identity_is_not_ours(scene: Scene, user: str) -> None:
    scene.limits(all=4096)
    scene.claim("disk", head=4096)
    async with scene.served():
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"), user=user)).allowed
        assert (await scene.annotate(GA.snapshots, "a", user=user, takes=FREE)).allowed
        assert scene.takes(GA.snapshots, "a") == {"namespace": "4Ki"}
        refused = await scene.submit(GA.snapshots, snapshot_of(GA, "b", "disk", takes=FREE), user=user)
    assert refused.code == 403


@simulated
async def test_what_another_webhook_changes_behind_ours_is_not_admitted(scene: Scene) -> None:
    scene.claim("disk", head=4096)
    async with scene.served():
        made = await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"), behind={"ullage.io/takes": FREE})
        assert (made.allowed, made.code) == (False, 429)
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))).allowed
        edited = await scene.submit(GA.snapshots, scene.body(GA.snapshots, "a"), behind={"ullage.io/takes": FREE})
    assert (edited.allowed, edited.code) == (False, 422)


@simulated
async def test_an_old_name_pays_again(scene: Scene) -> None:
    scene.limits(all=4096)
    scene.claim("disk", head=4096)
    async with scene.served():
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))).allowed
        kept = scene.body(GA.snapshots, "a")["metadata"]["annotations"]
        scene.remove(GA.snapshots, "a")
        again = {**snapshot_of(GA, "a", "disk"), "metadata": {"name": "a", "annotations": kept}}
        assert (await scene.submit(GA.snapshots, again)).allowed
        refused = await scene.submit(GA.snapshots, snapshot_of(GA, "b", "disk"))
    assert refused.code == 403


@simulated
async def test_a_snapshot_from_before_there_were_stamps_can_be_edited_on_a_full_namespace(scene: Scene) -> None:
    scene.limits(all=0)
    scene.claim("disk", head=4096)
    async with scene.served():
        scene.store(
            GA.snapshots, {**snapshot_of(GA, "old", "disk"), "metadata": {"name": "old", "namespace": TEAM, "uid": "u"}}
        )
        assert (await scene.annotate(GA.snapshots, "old", takes=FREE)).allowed
        assert scene.takes(GA.snapshots, "old") is None, "ours alone is to stamp it"
        assert (await scene.annotate(GA.snapshots, "old", user=OURS, takes=HUGE)).allowed, "it is there: it is booked"


# --- stamps that we change -------------------------------------------------------------------------------------------


def stamp(amount: int, **vms: int) -> str:
    cells = ",".join(
        f'"snapshots/{account}":{{"storage":"{bytes}"}}'
        for account, bytes in {"namespace": amount, **{f"vm/{vm}": count for vm, count in vms.items()}}.items()
    )
    return f"{{{cells}}}"


@BOTH
@simulated
async def test_before_the_cut_a_raise_is_booked_or_refused_with_its_numbers(scene: Scene, dialect: AnyDialect) -> None:
    scene.limits(all=8192)
    scene.claim("disk", head=4096)
    async with scene.served():
        assert (await scene.submit(dialect.snapshots, snapshot_of(dialect, "a", "disk"))).allowed
        assert (await scene.annotate(dialect.snapshots, "a", user=OURS, takes=stamp(8192))).allowed
        refused = await scene.annotate(dialect.snapshots, "a", user=OURS, takes=stamp(8193))
    assert refused.code == 403
    assert "snapshots/namespace storage: asked 1 byte, …, limit 8Ki, over by 1 byte" in unsplit(refused.message)


@BOTH
@simulated
async def test_after_the_cut_growth_is_booked_past_the_limit(scene: Scene, dialect: AnyDialect) -> None:
    scene.limits(all=4096)
    scene.claim("disk", head=4096)
    async with scene.served():
        assert (await scene.submit(dialect.snapshots, snapshot_of(dialect, "a", "disk"))).allowed
        uid = scene.body(dialect.snapshots, "a")["metadata"]["uid"]
        scene.store(dialect.records, record_of(dialect, uid, "a", cut=True))
        assert (await scene.annotate(dialect.snapshots, "a", user=OURS, takes=stamp(9000))).allowed
        refused = await scene.submit(dialect.snapshots, snapshot_of(dialect, "b", "disk"))
    assert refused.code == 403, "and counts"


@BOTH
@simulated
async def test_a_status_that_anybody_may_have_written_does_not_make_it_cut(scene: Scene, dialect: AnyDialect) -> None:
    scene.limits(all=4096)
    scene.claim("disk", head=4096)
    forged = {"creationTime": "2026-01-01T00:00:00Z", "creationTimestamp": "2026-01-01T00:00:00Z", "readyToUse": True}
    async with scene.served():
        assert (await scene.submit(dialect.snapshots, snapshot_of(dialect, "a", "disk"))).allowed
        uid = scene.body(dialect.snapshots, "a")["metadata"]["uid"]
        scene.change(dialect.snapshots, "a", status={**forged, "boundVolumeSnapshotContentName": "another"})
        scene.store(dialect.records, record_of(dialect, uid, "a"))
        refused = await scene.annotate(dialect.snapshots, "a", user=OURS, takes=stamp(9000))
    assert refused.code == 403


@simulated
async def test_on_an_object_that_is_going_growth_has_happened(scene: Scene) -> None:
    scene.limits(all=4096)
    scene.claim("disk", head=4096)
    async with scene.served():
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))).allowed
        scene.change(GA.snapshots, "a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        assert (await scene.annotate(GA.snapshots, "a", user=OURS, takes=stamp(9000))).allowed
        assert (await scene.annotate(GA.snapshots, "a", user=OURS, takes=FREE)).allowed
    assert scene.takes(GA.snapshots, "a") == {}


@simulated
async def test_who_joins_the_claim_before_the_cut_pays_for_what_is_raised(scene: Scene) -> None:
    """A snapshot that was asked for before the virtual machine had its disk is no way round the machine's limit."""
    scene.limits(late=4096)
    scene.claim("disk", head=10)
    async with scene.served():
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "a", "disk"))).allowed
    scene.vm("late", "disk")
    async with scene.served():
        assert (await scene.annotate(GA.snapshots, "a", user=OURS, takes=stamp(4096))).allowed
        assert scene.takes(GA.snapshots, "a") == {"namespace": "4096", "vm/late": "4Ki"}
        refused = await scene.annotate(GA.snapshots, "a", user=OURS, takes=stamp(4097))
    assert "snapshots/vm/late storage: asked 1 byte" in refused.message


# --- imports ---------------------------------------------------------------------------------------------------------


@simulated
async def test_an_import_pays_for_what_nobody_pays_for(scene: Scene) -> None:
    scene.claim("disk", head=10)
    scene.engine("pv-disk", 10, entries={"snapshot-u9": 70})
    async with scene.served():
        scene.store(GA.records, record_of(GA, "u9", "gone", cut=True))
        assert (await scene.submit(GA.snapshots, import_of(GA, "a", "snapcontent-u9"))).allowed
        assert (await scene.submit(GA.snapshots, import_of(GA, "b", "not-there"))).allowed
    assert (scene.takes(GA.snapshots, "a"), scene.takes(GA.snapshots, "b")) == ({"namespace": "70"}, {"namespace": "0"})
    assert scene.marks(GA.snapshots, "a")["estimated-by"] == "engine-size"


@pytest.mark.parametrize("payer", ["record", "engine snapshot", "another VolumeSnapshot"])
@simulated
async def test_an_import_does_not_pay_again(scene: Scene, payer: str) -> None:
    scene.claim("disk", head=10)
    scene.engine("pv-disk", 10, entries={"snapshot-u9": 70})
    record = record_of(GA, "u9", "other", cut=True)
    async with scene.served():
        if payer == "record":
            record["metadata"]["annotations"] = {"ullage.io/takes": stamp(70), "ullage.io/charged-namespace": TEAM}
        elif payer == "engine snapshot":
            body = engine_snapshot("snapshot-u9", createSnapshot=False)
            assert (await scene.submit(ENGINE_SNAPSHOTS, body, user=OURS)).allowed
            assert scene.takes(ENGINE_SNAPSHOTS, "snapshot-u9", ENGINE_NS) == {"namespace": "70"}
        else:
            other = snapshot_of(GA, "other", "disk")
            scene.store(GA.snapshots, {**other, "metadata": {"name": "other", "namespace": TEAM, "uid": "u9"}})
        scene.store(GA.records, record)
        assert (await scene.submit(GA.snapshots, import_of(GA, "a", "snapcontent-u9"))).allowed
    assert scene.takes(GA.snapshots, "a") == {}


@simulated
async def test_who_was_given_a_snapshot_pays_for_it_though_the_source_does(scene: Scene) -> None:
    scene.claim("disk", head=10)
    scene.engine("pv-disk", 10, entries={"snapshot-u9": 70})
    record = record_of(GA, "u9", "a", cut=True)
    record["metadata"]["annotations"] = {SHARED_BY: "grant"}
    record["spec"]["volumeSnapshotRef"].pop("uid")
    async with scene.served():
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("snapshot-u9", createSnapshot=False), user=OURS)).allowed
        assert scene.takes(ENGINE_SNAPSHOTS, "snapshot-u9", ENGINE_NS) == {"namespace": "70"}
        scene.store(GA.records, record)
        assert (await scene.submit(GA.snapshots, import_of(GA, "a", "snapcontent-u9"))).allowed
    assert scene.takes(GA.snapshots, "a") == {"namespace": "70"}
