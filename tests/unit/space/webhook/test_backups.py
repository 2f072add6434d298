"""Backups of virtual machines: one pays for its members, and nobody becomes a member by saying so."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.space.scene import (
    LONGHORN_USER,
    OURS,
    PERSON,
    TEAM,
    Json,
    Scene,
    backup_of,
    record_of,
    simulated,
    snapshot_of,
    unsplit,
)
from ullage.kube.cache.indexer import Key
from ullage.ledger.api import LEDGERS, NAMESPACE, LedgerSpec
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.vms.api.backups import VM_BACKUPS

FREE = "{}"


def two_disks(scene: Scene) -> None:
    scene.claim("root", head=4096)
    scene.claim("data", head=1024)
    scene.vm("db", "root", "data")


def member_of(scene: Scene, backup: str, claim: str, called: str = "", **changes: Any) -> Json:
    """What our controller makes."""
    body = snapshot_of(GA, called or f"{backup}-volume-{claim}", claim, cut="hold")
    uid = scene.body(VM_BACKUPS, backup)["metadata"]["uid"]
    owner = {"apiVersion": VM_BACKUPS.api_version, "kind": VM_BACKUPS.kind, "name": backup, "uid": uid, "controller": True}
    body["metadata"]["ownerReferences"] = [{**owner, **changes}]
    return body


# --- what it takes ---------------------------------------------------------------------------------------------------


@simulated
async def test_a_backup_pays_for_all_its_claims_and_says_for_which(scene: Scene) -> None:
    two_disks(scene)
    scene.claim("seen", used='{"bytes":700,"at":"2026-01-01T00:00:00Z","by":"measured"}', driver="csi.example.com")
    scene.vm("db", "root", "data", "seen")
    scene.vm("web", "data")
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))).allowed
    assert scene.takes(VM_BACKUPS, "nightly") == {"namespace": "5820", "vm/db": "5820", "vm/web": "1Ki"}
    marks = scene.marks(VM_BACKUPS, "nightly")
    assert marks["plan"] == '{"data":1024,"root":4096,"seen":700}'
    assert marks["estimated-by"] == "measured", "the sum is as good as the worst of its parts"


@simulated
async def test_a_backup_that_does_not_fit_as_a_whole_is_refused_with_the_sum(scene: Scene) -> None:
    two_disks(scene)
    scene.limits(all=10240, db=5119)
    async with scene.served():
        refused = await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))
        assert refused.code == 403
        assert unsplit(refused.message).startswith(
            "does not fit: snapshots/vm/db storage: asked 5Ki, …, limit 4.99Ki, over by 1 byte. Next: delete snapshots that are"
        )
    scene.limits(all=10240, db=5120)
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))).allowed


@simulated
async def test_two_backups_that_fit_singly_but_not_together(scene: Scene) -> None:
    two_disks(scene)
    scene.limits(all=10239)
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("one", "db"))).allowed
        assert (await scene.submit(VM_BACKUPS, backup_of("two", "db"))).code == 403


@pytest.mark.parametrize(
    "vm", [pytest.param("none-such", id="that does not exist"), pytest.param("diskless", id="that has no claim")]
)
@simulated
async def test_of_a_virtual_machine_without_volumes_nothing_is_paid(scene: Scene, vm: str) -> None:
    """Whether that makes sense is for others to say."""
    scene.vm("diskless")
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("nightly", vm))).allowed
    assert (scene.takes(VM_BACKUPS, "nightly"), scene.marks(VM_BACKUPS, "nightly")["plan"]) == ({"namespace": "0"}, "{}")


@simulated
async def test_claims_that_wait_and_foreign_storage_are_no_error(scene: Scene) -> None:
    scene.claim("waiting", bound=False, capacity="2Mi")
    scene.claim("foreign", capacity="1Mi", driver="csi.example.com")
    scene.vm("db", "waiting", "foreign", "missing")
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))).allowed
    assert scene.marks(VM_BACKUPS, "nightly")["plan"] == '{"foreign":1048576,"missing":0,"waiting":2097152}'


# --- members ---------------------------------------------------------------------------------------------------------


@simulated
async def test_members_that_our_controller_makes_pay_nothing(scene: Scene) -> None:
    two_disks(scene)
    scene.limits(all=5120)
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))).allowed
        for claim in ("root", "data"):
            assert (await scene.submit(GA.snapshots, member_of(scene, "nightly", claim), user=OURS)).allowed
        assert scene.marks(GA.snapshots, "nightly-volume-root") == {"takes": FREE, "cut": "hold"}
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "other", "data"))).code == 403, "it is full"


@pytest.mark.parametrize(
    ("user", "claim", "changes"),
    [
        pytest.param(PERSON, "root", {}, id="a person names the backup as the owner"),
        pytest.param("system:serviceaccount:team:controller", "root", {}, id="an account of nearly our name does"),
        pytest.param(LONGHORN_USER, "root", {}, id="Longhorn does"),
        pytest.param(OURS, "other", {}, id="of a claim that is not in its plan"),
        pytest.param(OURS, "root", {"uid": "another"}, id="of an earlier backup of the name"),
        pytest.param(OURS, "root", {"name": "none-such"}, id="of a backup that does not exist"),
        pytest.param(OURS, "root", {"kind": "VirtualMachine"}, id="of an owner that is no backup"),
        pytest.param(OURS, "root", {"controller": False}, id="of an owner that does not control it"),
    ],
)
@simulated
async def test_who_only_says_that_he_is_a_member_pays(scene: Scene, user: str, claim: str, changes: Json) -> None:
    two_disks(scene)
    scene.claim("other", head=4096)
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))).allowed
        assert (await scene.submit(GA.snapshots, member_of(scene, "nightly", claim, "m", **changes), user=user)).allowed
    assert scene.takes(GA.snapshots, "m")["namespace"] == "4Ki"
    assert ("cut" in scene.marks(GA.snapshots, "m")) == (user == OURS), "nobody else has it held or cut"


@simulated
async def test_a_backup_that_is_going_takes_no_new_members(scene: Scene) -> None:
    two_disks(scene)
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))).allowed
        scene.change(VM_BACKUPS, "nightly", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        assert (await scene.submit(GA.snapshots, member_of(scene, "nightly", "root", "m"), user=OURS)).allowed
    assert scene.takes(GA.snapshots, "m") == {"namespace": "4Ki", "vm/db": "4Ki"}


@simulated
async def test_members_are_of_the_ga_api_alone(scene: Scene) -> None:
    two_disks(scene)
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))).allowed
        body = {**member_of(scene, "nightly", "root"), "spec": {"persistentVolumeClaimName": "root"}}
        body |= {"apiVersion": PROTOTYPE.snapshots.api_version}
        assert (await scene.submit(PROTOTYPE.snapshots, body, user=OURS)).allowed
    assert scene.takes(PROTOTYPE.snapshots, "nightly-volume-root")["namespace"] == "4Ki"


# --- whoever wants to pay less ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("going", [pytest.param(False, id="that stands"), pytest.param(True, id="that is going")])
@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"takes": FREE}, id="pays nothing"),
        pytest.param({"plan": '{"other":0}'}, id="plans for another claim"),
        pytest.param({"plan": None, "takes": None, "estimated_by": None}, id="drops all marks"),
    ],
)
@simulated
async def test_edits_of_a_backup_are_put_back(scene: Scene, forged: dict[str, str | None], going: bool) -> None:
    two_disks(scene)
    async with scene.served():
        made = await scene.submit(VM_BACKUPS, backup_of("nightly", "db", takes=FREE, plan='{"root":0,"data":0}'))
        assert made.allowed
        before = scene.marks(VM_BACKUPS, "nightly")
        assert (before["takes"], before["plan"]) != (FREE, '{"root":0,"data":0}')
        if going:
            scene.change(VM_BACKUPS, "nightly", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        assert (await scene.annotate(VM_BACKUPS, "nightly", TEAM, user=PERSON, **forged)).allowed
    assert scene.marks(VM_BACKUPS, "nightly") == before


def stamp(amount: int) -> str:
    return f'{{"snapshots/namespace":{{"storage":"{amount}"}},"snapshots/vm/db":{{"storage":"{amount}"}}}}'


@simulated
async def test_before_the_cut_the_sum_is_booked_or_refused_as_a_whole(scene: Scene) -> None:
    two_disks(scene)
    scene.limits(all=6000)
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))).allowed
        raised = {"takes": stamp(6000), "plan": '{"data":1904,"root":4096}'}
        assert (await scene.annotate(VM_BACKUPS, "nightly", TEAM, user=OURS, **raised)).allowed
        refused = await scene.annotate(VM_BACKUPS, "nightly", user=OURS, takes=stamp(6001))
    assert refused.code == 403
    assert "snapshots/namespace storage: asked 1 byte" in refused.message


@simulated
async def test_a_limit_that_is_lowered_meanwhile_stops_growth_alone(scene: Scene) -> None:
    """What was admitted may be cut as it was: the namespace is past its limit then, and says so."""
    two_disks(scene)
    scene.limits(all=6000)
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))).allowed
        seen = scene.server.get(LEDGERS, Key(NAMESPACE, f"ns-{TEAM}"))
        limits = {"snapshots/namespace": {"storage": "1000"}}
        scene.server.put(LEDGERS, msgspec.structs.replace(seen, spec=LedgerSpec(limits=limits, change=seen.spec.change + 1)))
        same = {"takes": stamp(5120), "plan": '{"data":1024,"root":4096}'}
        assert (await scene.annotate(VM_BACKUPS, "nightly", TEAM, user=OURS, **same)).allowed
        refused = await scene.annotate(VM_BACKUPS, "nightly", TEAM, user=OURS, takes=stamp(5121))
        another = await scene.submit(VM_BACKUPS, backup_of("second", "db"))
    assert (refused.code, another.code) == (403, 403)
    assert "limit 1000 bytes" in refused.message


@simulated
async def test_who_shares_a_claim_when_the_sum_is_booked_pays_for_it(scene: Scene) -> None:
    two_disks(scene)
    scene.limits(late=1904)
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))).allowed
    scene.vm("late", "data")
    async with scene.served():
        raised = {"takes": stamp(6000), "plan": '{"data":1904,"root":4096}'}
        assert (await scene.annotate(VM_BACKUPS, "nightly", TEAM, user=OURS, **raised)).allowed
        assert scene.takes(VM_BACKUPS, "nightly")["vm/late"] == "1904"
        more = {"takes": stamp(6001), "plan": '{"data":1905,"root":4096}'}
        refused = await scene.annotate(VM_BACKUPS, "nightly", TEAM, user=OURS, **more)
    assert "snapshots/vm/late storage: asked 1 byte" in refused.message


@pytest.mark.parametrize(
    ("members", "allowed"),
    [
        pytest.param("cut", True, id="all members are cut: it has happened"),
        pytest.param("one cut", False, id="one is cut: the other can still be refused"),
        pytest.param("none cut", False, id="its status says so, and no record does"),
        pytest.param("others", False, id="its status names snapshots that pay for themselves"),
    ],
)
@simulated
async def test_growth_of_a_backup_has_happened_when_the_records_of_all_members_say_so(
    scene: Scene, members: str, allowed: bool
) -> None:
    two_disks(scene)
    scene.limits(all=20000)
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))).allowed
        shown = []
        for claim in ("root", "data"):
            user = PERSON if members == "others" else OURS
            body = member_of(scene, "nightly", claim)
            assert (await scene.submit(GA.snapshots, body, user=user)).allowed
            name = body["metadata"]["name"]
            cut = members in ("cut", "others") or (members == "one cut" and claim == "root")
            uid = scene.body(GA.snapshots, name)["metadata"]["uid"]
            scene.store(GA.records, record_of(GA, uid, name, cut=cut))
            shown.append({"name": name, "volumeName": f"disk-{claim}", "creationTime": "2026-01-01T00:00:00Z"})
        scene.change(VM_BACKUPS, "nightly", status={"volumeBackups": shown, "readyToUse": True})
        assert (await scene.annotate(VM_BACKUPS, "nightly", user=OURS, takes=stamp(30000))).allowed is allowed


# --- Harvester's -----------------------------------------------------------------------------------------------------


def test_where_harvester_makes_backups_they_are_checked_and_their_members_pay() -> None:
    async def run() -> None:
        scene = Scene(backups="observe")
        two_disks(scene)
        scene.limits(all=5120)
        async with scene.served():
            assert (await scene.submit(VM_BACKUPS, backup_of("nightly", "db"))).allowed
            assert scene.marks(VM_BACKUPS, "nightly") == {}, "it is somebody else's object"
            harvester = "system:serviceaccount:harvester-system:harvester"
            for claim in ("root", "data"):
                body = member_of(scene, "nightly", claim)
                assert (await scene.submit(GA.snapshots, body, user=harvester)).allowed
            assert scene.takes(GA.snapshots, "nightly-volume-root") == {"namespace": "4Ki", "vm/db": "4Ki"}
            refused = await scene.submit(VM_BACKUPS, backup_of("second", "db"))
        assert refused.code == 403
        assert unsplit(refused.message).startswith(
            "does not fit: snapshots/namespace storage: asked 5Ki, …, limit 5Ki, over by 5Ki"
        )

    in_virtual_time(run())
