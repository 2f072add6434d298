"""`ullage snapshot restore --in-place` and `--undo`: what is asked, what is made, and what is told while it goes on."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.cli.snapshot.cluster import GA, PROTOTYPE, Cluster
from ullage.cli.common.session import Missing
from ullage.cli.common.waiting import Failed, ProgressOutput, TimedOut
from ullage.cli.snapshot import in_place
from ullage.cli.snapshot.command import app
from ullage.kube.builtin.core import PODS
from ullage.policies.restores.api import SNAPSHOT_RESTORES


def restored(
    cluster: Cluster,
    name: str = "nightly",
    *,
    created: str = "2026-05-01T11:50:00Z",
    claim: str = "data",
    dialect: Any = GA,
    **status: Any,
) -> None:
    spec = {"claimName": claim, "source": {"name": "nightly", "apiGroup": dialect.snapshots.group}}
    cluster.put(SNAPSHOT_RESTORES, {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec, "status": status})


def undoable(*, holds: bool, message: str = "") -> dict[str, Any]:
    said = {"type": "Undoable", "status": str(holds), "reason": "Kept", "message": message}
    return {"phase": "Complete", "completionTime": "2026-05-01T11:52:00Z", "conditions": [said]}


def used(cluster: Cluster) -> None:
    pod = {"metadata": {"name": "db-0"}, "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}}
    cluster.put(PODS, {**pod, "status": {"phase": "Running"}})


@pytest.mark.parametrize("dialect", [GA, PROTOTYPE], ids=["ga", "prototype"])
async def test_a_restore_of_the_snapshots_own_claim_is_made(dialect: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    asked: list[str] = []
    cluster.snapshot("nightly", "data", dialect=dialect)
    given = in_place.InPlaceOptions(undo_window="2h")
    await in_place.carry_out(cluster.session(), "nightly", given, confirm=asked.append, dry_run=False, timeout=None)
    made = cluster.objects[SNAPSHOT_RESTORES.name, "shop", "nightly"]["spec"]
    assert (made["claimName"], made["undoWindow"], made["source"]["name"]) == ("data", "2h", "nightly")
    assert made["source"].get("apiGroup", "snapshot.storage.k8s.io") == dialect.snapshots.group
    assert asked == [
        "Claim data gets the data of snapshot nightly. What it has now is kept for 2h after that, and can be had back with "
        "--undo.\nGo on?"
    ]
    assert capsys.readouterr().out == "snapshotrestore/nightly created\n"


async def test_while_a_pod_uses_the_claim_nothing_is_made_unless_somebody_waits(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    asked: list[str] = []
    cluster.snapshot("nightly", "data")
    used(cluster)
    given = in_place.InPlaceOptions()
    with pytest.raises(Failed) as refused:
        await in_place.carry_out(cluster.session(), "nightly", given, confirm=asked.append, dry_run=False, timeout=None)
    assert str(refused.value) == (
        "claim data is used by pod db-0; delete it: kubectl delete pod db-0 -n shop. Nothing was changed. Next: do that, "
        "and then this "
        "again; or say --wait, and it begins as soon as nobody uses the claim"
    )
    assert (asked, capsys.readouterr().out) == ([], "")
    assert not any(verb == "create" for verb, *_ in cluster.asked)
    with pytest.raises(TimedOut, match="claim data has not got its data within 0 s; nothing was stopped"):
        await in_place.carry_out(cluster.session(), "nightly", given, confirm=asked.append, dry_run=False, timeout=0.0)
    note = "claim data is used by pod db-0; delete it: kubectl delete pod db-0 -n shop. It is waited for, 10m at most"
    assert asked[0].endswith(f"\nNote: {note}.\nGo on?")
    assert capsys.readouterr().out == f"snapshotrestore/nightly created; {note}\n"


async def test_a_dry_run_says_who_uses_the_claim(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    cluster.snapshot("nightly", "data")
    used(cluster)
    given = in_place.InPlaceOptions()
    await in_place.carry_out(cluster.session(), "nightly", given, confirm=lambda _: None, dry_run=True, timeout=None)
    assert capsys.readouterr().out.startswith("snapshotrestore/nightly would be created (dry run); claim data is used by pod")


async def test_a_second_restore_of_a_snapshot_has_a_number() -> None:
    cluster = Cluster()
    cluster.snapshot("nightly", "data")
    for _ in range(2):
        given = in_place.InPlaceOptions()
        await in_place.carry_out(cluster.session(), "nightly", given, confirm=lambda _: None, dry_run=False, timeout=None)
    assert (SNAPSHOT_RESTORES.name, "shop", "nightly-2") in cluster.objects


async def test_the_latest_restore_that_can_be_undone_is() -> None:
    cluster = Cluster()
    asked: list[str] = []
    restored(cluster, "nightly", **undoable(holds=False))
    restored(cluster, "nightly-2", created="2026-05-01T11:51:00Z", **undoable(holds=True))
    await in_place.carry_out(cluster.session(), "nightly", None, confirm=asked.append, dry_run=True, timeout=None)
    assert asked == ["Claim data gets back what it had before 2026-05-01T11:52:00Z. What was written since is lost.\nGo on?"]
    found = await in_place.undoable(cluster.session(), "nightly")
    assert found.metadata.name == "nightly-2"


async def test_an_undo_is_of_the_snapshot_that_the_same_command_would_restore() -> None:
    cluster = Cluster()
    cluster.snapshot("nightly", "data")
    cluster.snapshot("nightly", "logs", dialect=PROTOTYPE)
    restored(cluster, "nightly", **undoable(holds=True))
    restored(cluster, "of-logs", created="2026-05-01T11:51:00Z", claim="logs", dialect=PROTOTYPE, **undoable(holds=True))
    assert (await in_place.undoable(cluster.session(), "nightly")).metadata.name == "nightly"
    assert (await in_place.undoable(cluster.session(dialect="prototype"), "nightly")).metadata.name == "of-logs"
    restored(cluster, "nightly", **undoable(holds=False, message="it is not kept any longer"))
    with pytest.raises(Failed, match="restore nightly of snapshot nightly cannot be undone: it is not kept any longer"):
        await in_place.undoable(cluster.session(), "nightly")


async def test_an_undo_of_a_snapshot_that_is_gone_is_refused_where_it_may_mean_several_claims() -> None:
    cluster = Cluster()
    restored(cluster, "nightly", **undoable(holds=True))
    restored(cluster, "of-logs", created="2026-05-01T11:51:00Z", claim="logs", dialect=PROTOTYPE, **undoable(holds=True))
    with pytest.raises(Failed) as refused:
        await in_place.undoable(cluster.session(), "nightly")
    assert str(refused.value) == (
        "snapshot nightly is gone, and restores of several claims from a snapshot of this name can be undone: nightly (claim "
        "data), of-logs (claim logs). Nothing was changed. Next: say which: kubectl patch snapshotrestore RESTORE -n shop "
        """--type merge -p '{"spec":{"undo":true}}'"""
    )
    assert (await in_place.undoable(cluster.session(dialect="ga"), "nightly")).metadata.name == "nightly"


async def test_an_undo_of_a_snapshot_that_is_of_another_claim_by_now_is_refused() -> None:
    cluster = Cluster()
    restored(cluster, "nightly", **undoable(holds=True))
    cluster.snapshot("nightly", "logs")
    with pytest.raises(Failed) as refused:
        await in_place.undoable(cluster.session(), "nightly")
    assert str(refused.value) == (
        "snapshot nightly is of claim logs; restores from an earlier one of this name can be undone: nightly (claim data). "
        "Nothing was changed. Next: say which: kubectl patch snapshotrestore RESTORE -n shop --type merge -p "
        """'{"spec":{"undo":true}}'"""
    )
    cluster.hidden.add(GA.snapshots.name)  # who may not read snapshots goes by the restores alone
    assert (await in_place.undoable(cluster.session(), "nightly")).metadata.name == "nightly"


async def test_an_undo_says_who_uses_the_claim(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    restored(cluster, "nightly", **undoable(holds=True))
    used(cluster)
    await in_place.carry_out(cluster.session(), "nightly", None, confirm=lambda _: None, dry_run=True, timeout=None)
    assert capsys.readouterr().out == (
        "snapshotrestore/nightly would be undone (dry run) as soon as nobody uses the claim: claim data is used by pod db-0; "
        "delete it: kubectl delete pod db-0 -n shop\n"
    )


async def test_what_cannot_be_undone_says_why() -> None:
    cluster = Cluster()
    with pytest.raises(Missing, match="no restore in place of snapshot nightly"):
        await in_place.undoable(cluster.session(), "nightly")
    restored(cluster, **undoable(holds=False, message="what the claim had before is not kept any longer"))
    with pytest.raises(Failed, match="cannot be undone: what the claim had before is not kept any longer"):
        await in_place.undoable(cluster.session(), "nightly")


async def test_what_was_undone_is_not_undone_again() -> None:
    cluster = Cluster()
    restored(cluster, **{**undoable(holds=False, message="it is not kept any longer"), "phase": "Undone"})
    with pytest.raises(Failed, match="restore nightly of snapshot nightly was undone already: there is nothing to undo"):
        await in_place.undoable(cluster.session(), "nightly")


async def test_a_restore_that_failed_ends_the_wait_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    said = {"type": "Complete", "status": "False", "reason": "ClaimInUse", "message": "claim data is used by pod db-0"}
    restored(cluster, phase="Failed", conditions=[said])
    found = (await cluster.list(SNAPSHOT_RESTORES, "shop")).items[0]
    waiter = in_place.InPlaceWaiter(cluster.session().client, found, goal="Complete", output=ProgressOutput())
    with pytest.raises(Failed, match="claim data is as it was: ClaimInUse: claim data is used by pod db-0"):
        await waiter.run(5.0)
    assert "nightly: Failed: claim data is used by pod db-0" in capsys.readouterr().out


async def test_the_end_of_the_wait_says_until_when_it_can_be_undone(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    restored(cluster, phase="Complete", undoUntil="2026-05-02T11:52:00Z")
    found = (await cluster.list(SNAPSHOT_RESTORES, "shop")).items[0]
    await in_place.InPlaceWaiter(cluster.session().client, found, goal="Complete").run(5.0)
    assert "it can be undone until 2026-05-02T11:52:00Z" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        pytest.param([], "--to (absent): one of --to, --in-place or --undo is needed", id="none"),
        pytest.param(["--in-place", "--undo"], "one of --to, --in-place or --undo is needed", id="two"),
        pytest.param(["--in-place"], "nobody can be asked here", id="nobody to ask"),
        pytest.param(["--in-place", "--yes", "--undo-window", "soon"], "--undo-window soon: not a duration", id="no duration"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(given: list[str], problem: str) -> None:
    done = CliRunner().invoke(app, ["restore", "nightly", *given])
    assert done.exit_code != 0
    assert problem in str(done.exception or "") + done.output
