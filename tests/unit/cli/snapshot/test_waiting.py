"""Waiting for snapshots and claims: what is told, when it ends, and how."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.cli.snapshot.cluster import GA, PROTOTYPE, Cluster, Json
from ullage.cli.common import waiting as common_waiting
from ullage.cli.common.session import Missing
from ullage.cli.common.waiting import Failed, ProgressOutput, TimedOut
from ullage.cli.snapshot import actions
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.restoring import ClaimWaiter
from ullage.cli.snapshot.waiting import SnapshotWaiter, WaitOptions
from ullage.clock import FakeClock
from ullage.kube.builtin import core, storage
from ullage.kube.builtin.events import EVENTS
from ullage.kube.errors import Unavailable

CUT: Json = {"creationTime": "2026-05-01T11:50:02Z"}
READY: Json = {**CUT, "readyToUse": True, "restoreSize": "1Gi"}
BROKEN: Json = {"error": {"message": "DriverError: no such volume"}}


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes by the fake clock only: a second with every look."""
    monkeypatch.setattr(common_waiting, "LOOKS", (0.0,))


class Stage:
    """A cluster on which one thing happens before each look."""

    def __init__(self, *acts: Callable[[Stage], None], cluster: Cluster | None = None) -> None:
        self.cluster = cluster or Cluster()
        self.clock = FakeClock()
        self.out = io.StringIO()
        self._acts = iter(acts)
        self.cluster.before = self._next

    def _next(self) -> None:
        self.clock.advance(1.0)
        next(self._acts, lambda stage: None)(self)

    async def wait(self, *found: Found, goal: str = "ready", timeout: float = 60.0) -> list[str]:
        terms = WaitOptions(goal=goal, timeout=timeout)
        client = self.cluster.session().client
        await SnapshotWaiter(client, found, terms, output=ProgressOutput(self.out), clock=self.clock).run()
        return self.told

    @property
    def told(self) -> list[str]:
        return self.out.getvalue().splitlines()


def becomes(name: str, status: Json, *, dialect: Any = GA, **meta: Any) -> Callable[[Stage], None]:
    def act(stage: Stage) -> None:
        stage.cluster.snapshot(name, "data", dialect=dialect, status=status, **meta)

    return act


def goes(name: str) -> Callable[[Stage], None]:
    def act(stage: Stage) -> None:
        del stage.cluster.objects[GA.snapshots.name, "shop", name]

    return act


def nothing(stage: Stage) -> None:
    return


async def test_requested_cut_and_ready_are_told_as_they_come() -> None:
    stage = Stage(nothing, becomes("a", CUT), nothing, becomes("a", READY))
    assert await stage.wait(stage.cluster.snapshot("a", "data")) == [
        "a: requested",
        "a: cut at 2026-05-01T11:50:02Z after 2 s; the application may write again",
        "a: ready; a volume made from it needs 1Gi (waited 4.0 s)",
    ]


async def test_the_cut_ends_a_wait_for_it() -> None:
    stage = Stage(becomes("a", CUT), becomes("a", READY))
    assert len(await stage.wait(stage.cluster.snapshot("a", "data"), goal="cut")) == 1


async def test_an_error_that_only_an_edit_mends_ends_it_with_its_text() -> None:
    stage = Stage(becomes("a", BROKEN))
    with pytest.raises(Failed, match=r"^snapshot a failed: DriverError: no such volume$"):
        await stage.wait(stage.cluster.snapshot("a", "data"))
    assert stage.told == ["a: requested", "a: trouble: DriverError: no such volume"]


async def test_an_error_that_goes_at_once_ends_nothing() -> None:
    """As one of a controller that has not seen the claim yet."""
    missing = {"error": {"message": "ClaimNotFound: claim shop/data does not exist"}}
    stage = Stage(becomes("a", missing), becomes("a", {}), nothing, nothing, becomes("a", READY))
    assert (await stage.wait(stage.cluster.snapshot("a", "data")))[-1].startswith("a: ready")


async def test_an_error_that_is_tried_again_is_told_and_waited_out() -> None:
    busy = {"error": {"message": "DriverRetrying: busy"}}
    stage = Stage(becomes("a", busy), nothing, nothing, nothing, nothing, becomes("a", READY))
    told = await stage.wait(stage.cluster.snapshot("a", "data"))
    assert told.count("a: trouble: DriverRetrying: busy") == 1
    assert told[-1].startswith("a: ready")


async def test_the_time_is_up() -> None:
    stage = Stage(becomes("a", {"error": {"message": "DriverRetrying: busy"}}))
    with pytest.raises(TimedOut) as caught:
        await stage.wait(stage.cluster.snapshot("a", "data"), timeout=5)
    assert str(caught.value) == (
        "not ready within 5 s: a is error (DriverRetrying: busy); nothing was stopped, "
        "wait again with: ullage snapshot wait a -n shop"
    )


async def test_a_timeout_of_zero_looks_once() -> None:
    stage = Stage(nothing, becomes("a", READY))
    with pytest.raises(TimedOut, match=r"not cut within 0 s: a is creating.*ullage snapshot wait a --for cut -n shop"):
        await stage.wait(stage.cluster.snapshot("a", "data"), goal="cut", timeout=0)


async def test_a_timeout_of_zero_finds_an_error() -> None:
    stage = Stage(becomes("a", BROKEN))
    with pytest.raises(Failed, match="DriverError"):
        await stage.wait(stage.cluster.snapshot("a", "data"), timeout=0)


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(goes("a"), id="it is gone"),
        pytest.param(becomes("a", READY, uid="another"), id="another one has its name"),
        pytest.param(becomes("a", READY, deletionTimestamp="2026-05-01T12:00:00Z"), id="it is going"),
    ],
)
async def test_a_snapshot_that_is_deleted_meanwhile(act: Callable[[Stage], None]) -> None:
    stage = Stage(nothing, act)
    with pytest.raises(Failed, match=r"^snapshot a was deleted before it was ready$"):
        await stage.wait(stage.cluster.snapshot("a", "data"))


async def test_waiting_for_deletion() -> None:
    stage = Stage(nothing, becomes("a", READY, deletionTimestamp="2026-05-01T12:00:00Z"), nothing, goes("a"))
    told = await stage.wait(stage.cluster.snapshot("a", "data", status=READY), goal="deleted")
    assert told[-2:] == ["a: deleting", "a: gone (waited 4.0 s)"]


async def test_several_of_both_apis_are_waited_for_and_every_failure_is_told() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    stage = Stage(nothing, becomes("b", BROKEN), becomes("p", ready, dialect=PROTOTYPE), nothing, becomes("a", READY))
    cluster = stage.cluster
    three = [cluster.snapshot("a", "x"), cluster.snapshot("b", "x"), cluster.snapshot("p", "x", dialect=PROTOTYPE)]
    with pytest.raises(Failed, match=r"^snapshot b failed: DriverError: no such volume$"):
        await stage.wait(*three)
    assert {line.split(":")[0] for line in stage.told if "ready" in line} == {"a", "p"}


async def test_a_server_that_restarts_is_waited_out() -> None:
    def down(stage: Stage) -> None:
        raise Unavailable("connection refused")

    stage = Stage(down, down, becomes("a", READY))
    assert (await stage.wait(stage.cluster.snapshot("a", "data")))[-1].startswith("a: ready")


async def test_a_server_that_stays_away_is_named() -> None:
    def down(stage: Stage) -> None:
        raise Unavailable("connection refused")

    stage = Stage(*[down] * 9)
    with pytest.raises(TimedOut, match=r"a is not seen yet; .*; the last look failed: connection refused"):
        await stage.wait(stage.cluster.snapshot("a", "data"), timeout=3)


async def test_names_that_are_gone_already_need_no_waiting(capsys: pytest.CaptureFixture[str]) -> None:
    await actions.wait(Cluster().session(), ["a", "b"], goal="deleted", timeout=5)
    assert capsys.readouterr().out == "a: gone\nb: gone\n"


async def test_a_name_that_does_not_exist_cannot_become_ready() -> None:
    with pytest.raises(Missing, match="snapshot a does not exist in namespace shop"):
        await actions.wait(Cluster().session(), ["a"], goal="ready", timeout=5)


# --- a claim that is filled ------------------------------------------------------------------------------------------


def claim(phase: str = "Pending", **spec: Any) -> Json:
    return {"metadata": {"name": "copy"}, "spec": {"storageClassName": "fast", **spec}, "status": {"phase": phase}}


def filling(stage: Stage, found: Found | None = None) -> ClaimWaiter:
    body = stage.cluster.put(core.CLAIMS, claim())
    made = msgspec.convert(body, core.PersistentVolumeClaim)
    found = found or stage.cluster.snapshot("a", "data", status=READY)
    return ClaimWaiter(stage.cluster.session().client, made, found, output=ProgressOutput(stage.out), clock=stage.clock)


async def test_a_claim_is_waited_for_and_what_its_events_say_is_told_once() -> None:
    def warned(stage: Stage) -> None:
        event = {"reason": "SnapshotNotReady", "note": "it is uploading", "regarding": {"uid": "uid-copy"}}
        stage.cluster.put(EVENTS, {"metadata": {"name": "e"}, **event})

    stage = Stage(nothing, warned, nothing, nothing, nothing, nothing, bound)
    await filling(stage).run(60)
    assert stage.told == ["copy: SnapshotNotReady: it is uploading", "copy: bound to volume pvc-1 (waited 8.0 s)"]


async def test_how_far_the_copy_for_a_claim_is_is_told_now_and_then() -> None:
    def copied(far: str) -> Callable[[Stage], None]:
        def act(stage: Stage) -> None:
            body = claim()
            body["metadata"]["annotations"] = {"ullage.io/progress": far}
            stage.cluster.put(core.CLAIMS, body)

        return act

    looks = [copied(f"copied {number}Gi of 40Gi") for number in range(1, 31)]
    stage = Stage(nothing, *looks, bound)
    await filling(stage).run(600)
    told = [line for line in stage.told if "copied" in line]
    assert told[0] == "copy: copied 1Gi of 40Gi"
    assert 2 <= len(told) <= 6, "not every look is worth a line"


@pytest.mark.parametrize("times", [1, 30])
async def test_how_far_the_copy_of_a_snapshot_is_is_told_now_and_then(times: int) -> None:
    far = [becomes("a", {}, annotations={"ullage.io/progress": f"copied {one}Gi of 40Gi"}) for one in range(1, times + 1)]
    stage = Stage(nothing, *far, becomes("a", READY))
    told = [line for line in await stage.wait(stage.cluster.snapshot("a", "data")) if "copied" in line]
    assert told[0] == "a: copied 1Gi of 40Gi"
    assert 1 <= len(told) <= 6, "not every look is worth a line"


async def test_a_claim_that_waits_for_its_first_pod_is_not_waited_for() -> None:
    stage = Stage()
    late = {"metadata": {"name": "fast"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"}
    stage.cluster.put(storage.STORAGE_CLASSES, late)
    await filling(stage).run(60)
    assert stage.told == ["copy: its class makes volumes for the first pod that uses the claim; not waiting"]


@pytest.mark.parametrize(
    ("phase", "error"),
    [
        pytest.param("Lost", "claim copy has lost its volume pvc-1", id="it has lost its volume"),
        pytest.param("", "claim copy was deleted before it was bound", id="it was deleted"),
    ],
)
async def test_a_claim_that_will_not_be_filled(phase: str, error: str) -> None:
    def act(stage: Stage) -> None:
        if phase:
            stage.cluster.put(core.CLAIMS, claim(phase, volumeName="pvc-1"))
        else:
            stage.cluster.objects.pop((core.CLAIMS.name, "shop", "copy"))

    stage = Stage(nothing, act)
    with pytest.raises((Failed, Missing), match=f"^{error}$"):
        await filling(stage).run(60)


CONFLICT = (
    'Error saving claim: Operation cannot be fulfilled on persistentvolumeclaims "copy": the object has been modified; please'
    " apply your changes to the latest version and try again"
)


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        pytest.param("no space", ["copy: ProvisioningFailed: no space"], id="a failure is told"),
        pytest.param(CONFLICT, [], id="a conflict of two writes passes by itself and is not"),
    ],
)
async def test_what_another_controller_says_of_a_claim(note: str, shown: list[str]) -> None:
    stage = Stage(told_of("ProvisioningFailed", note, action=""), nothing, bound)
    await filling(stage, stage.cluster.snapshot("a", "data", status=READY)).run(60)
    assert stage.told[:-1] == shown


async def test_a_claim_that_takes_too_long_says_where_to_look() -> None:
    stage = Stage()
    with pytest.raises(
        TimedOut, match=r"claim copy is not bound within 9 s; .*: kubectl describe persistentvolumeclaim copy -n shop"
    ):
        await filling(stage).run(9)


def told_of(
    reason: str, note: str, *, type: str = "Warning", action: str = "Restore", time: str = "2026-05-01T12:00:00Z"
) -> Callable[[Stage], None]:
    """An Event on the claim, as the controller of restores records them."""

    def act(stage: Stage) -> None:
        event = {"reason": reason, "note": note, "type": type, "action": action, "eventTime": time}
        stage.cluster.put(EVENTS, {"metadata": {"name": f"copy.{reason}"}, **event, "regarding": {"uid": "uid-copy"}})

    return act


def bound(stage: Stage) -> None:
    stage.cluster.put(core.CLAIMS, claim("Bound", volumeName="pvc-1"))


@pytest.mark.parametrize(
    ("act", "error"),
    [
        pytest.param(
            told_of("SizeTooSmall", "spec.resources.requests.storage is 1Mi"),
            "SizeTooSmall: spec.resources.requests.storage is 1Mi",
            id="the controller says that only an edit helps",
        ),
        pytest.param(told_of("RestoreFailed", "no room"), "RestoreFailed: no room", id="the driver says so"),
        pytest.param(becomes("a", BROKEN), "snapshot a failed: DriverError: no such volume", id="the snapshot failed"),
        pytest.param(goes("a"), "snapshot a was deleted before it was ready", id="the snapshot is gone"),
    ],
)
async def test_a_restore_ends_at_an_error_that_only_an_edit_mends(act: Callable[[Stage], None], error: str) -> None:
    stage = Stage(nothing, act)
    found = stage.cluster.snapshot("a", "data")
    with pytest.raises(Failed) as caught:
        await filling(stage, found).run(600)
    assert str(caught.value) == (
        f"claim copy is not filled: {error}; it stays as it is: mend that, or: "
        "kubectl delete persistentvolumeclaim copy -n shop"
    )
    assert stage.clock.monotonic() < 60, "and does not wait for the timeout"


@pytest.mark.parametrize(
    "acts",
    [
        pytest.param([told_of("RestoreRetried", "busy; it is tried again")], id="that is tried again"),
        pytest.param([told_of("ProvisioningFailed", "no", action="")], id="of another provisioner, which tries again"),
        pytest.param([told_of("SnapshotNotReady", "not yet", type="Normal")], id="that is none"),
        pytest.param(
            [told_of("NoStorageClass", "no"), told_of("SnapshotNotReady", "yet", type="Normal", time="2026-05-01T12:00:01Z")],
            id="that is over",
        ),
    ],
)
async def test_a_restore_waits_an_error_out(acts: list[Callable[[Stage], None]]) -> None:
    stage = Stage(nothing, *acts, *[nothing] * 20, bound)
    await filling(stage, stage.cluster.snapshot("a", "data", status=READY)).run(600)
    assert stage.told[-1].startswith("copy: bound to volume pvc-1")
