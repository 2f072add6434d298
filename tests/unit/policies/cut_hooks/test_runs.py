"""Hooks around a cut: the order of what is run, every way in which a command does not end well, and a kill at every effect."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.unit.policies.cut_hooks.scene import NAMESPACE, POST, PRE, HookProcess, Scene, at
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.kube.client.client import Client
from ullage.kube.client.websockets.remote_command import ExecOutcome, ExecRefused, ExecRequest
from ullage.kube.errors import Forbidden, NotFound, TooManyRequests, Unavailable
from ullage.policies.cut_hooks.api import HookCommand
from ullage.policies.cut_hooks.controllers.run_perform import LOOK_SECONDS, MOST_LOOKED_AT
from ullage.policies.cut_hooks.controllers.run_perform_rules import CommandResult, RunFacts, RunStep, after_post, next_run_step
from ullage.policies.cut_hooks.controllers.snapshot_cut import LATE_NOTE
from ullage.policies.cut_hooks.interface import HookHolder
from ullage.policies.cut_hooks.pod_annotations import MAX_FREEZE
from ullage.policies.cut_hooks.resolution import MOST_RUNS
from ullage.policies.cut_hooks.run import HOOK_RUNS, HookOutcome, HookRun, HookRunSpec, HookRunStatus, Phase
from ullage.policies.cut_hooks.slice import LiveHolders
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.model import ESTIMATE
from ullage.times import timestamp


async def test_the_cut_is_between_the_two() -> None:
    scene = Scene()
    scene.pod()
    scene.snapshot()
    await scene.live()
    assert scene.ran == ["pre db", "cut s", "post db"]
    assert scene.runs() == []


async def test_a_kill_at_any_effect_leaves_nothing_frozen_and_nothing_uncut() -> None:
    """Right before and right after each of them, the commands included. Post has run at least once for each pre."""
    dry = Scene()
    dry.pod()
    dry.snapshot()
    await dry.live()
    effects = dry.api.fuse.passed
    assert effects > 12
    for moment in range(1, effects + 1):
        scene = Scene()
        scene.pod()
        scene.snapshot()
        assert await scene.live(blows_at=moment), moment
        await scene.live()
        assert not scene.frozen, (moment, scene.ran)
        assert scene.is_cut(), (moment, scene.ran)
        assert scene.runs() == [], moment
        cuts = [one for one in scene.ran if one.startswith("cut")]
        assert cuts == ["cut s"], (moment, scene.ran)  # once, and while it was frozen
        assert scene.ran[-1] == "post db", (moment, scene.ran)
        commands = [one for one in scene.ran if not one.startswith("cut")]
        assert ("pre db", "pre db") not in pairwise(commands), (moment, scene.ran)  # each is undone before the next


async def test_a_failing_pre_command_aborts_and_post_runs_all_the_same() -> None:
    scene = Scene(answers={"freeze": 3})
    scene.pod()
    scene.snapshot()
    await scene.live()
    assert scene.ran == ["pre db", "post db"]
    assert not scene.is_cut()
    assert "HookFailed: pod db, container main: the pre command failed: exit code 3: no such file" in scene.word()
    assert "PreHookFailed" in scene.told.reasons


async def test_a_failure_that_is_to_be_passed_over_is() -> None:
    scene = Scene(answers={"freeze": 3})
    scene.pod(annotations={f"{PRE}/command": "freeze", f"{PRE}/on-error": "Continue", f"{POST}/command": "thaw"})
    scene.snapshot()
    await scene.live()
    assert scene.ran == ["pre db", "cut s", "post db"]


async def test_a_pre_command_of_which_nobody_knows_is_undone() -> None:
    scene = Scene(answers={"freeze": "lost"})
    scene.pod()
    scene.snapshot()
    await scene.live()
    assert (scene.ran, scene.frozen) == (["pre db", "post db"], set())


async def test_a_post_command_that_fails_is_tried_again_and_given_up() -> None:
    scene = Scene(answers={"thaw": 1})
    scene.pod()
    scene.snapshot()
    await scene.live()
    assert scene.ran == ["pre db", "cut s", *["post db"] * 8]
    assert scene.told.reasons.count("PostHookFailed") == 8
    assert scene.runs() == []


# --- what could not be delivered --------------------------------------------------------------------------------------

AWAY = ExecRefused("error dialing backend", reason="Unavailable")


async def for_minutes(scene: Scene, minutes: float, *, step: float = 0.2) -> None:
    """A process that looks again and again, as often as events and timers would have it."""
    async with scene.process() as process:
        for _ in range(int(minutes * 60 / step)):
            await process.look()
            scene.clock.advance(step)


@pytest.mark.parametrize(
    ("pre", "seconds", "error"),
    [
        pytest.param("lost", 5.0, AWAY, id="the connection broke with the pre command, and nobody answers for 5 s"),
        pytest.param("late", 5.0, AWAY, id="the pre command took too long, and nobody answers for 5 s"),
        pytest.param(3, 60.0, AWAY, id="the pre command failed, and nobody answers for a minute"),
        pytest.param(0, 300.0, AWAY, id="the node cannot be reached for five minutes"),
        pytest.param(0, 300.0, TooManyRequests("later", code=429), id="the API server asks for patience"),
        pytest.param(0, 300.0, Forbidden("no", code=403), id="somebody takes our rights for five minutes"),
        pytest.param(0, 30.0, NotFound("pod does not exist", code=404), id="a kubelet that has just started knows no pods"),
        pytest.param(0, 300.0, RuntimeError("Session is closed"), id="an error that nobody has thought of"),
    ],
)
async def test_a_post_command_that_cannot_be_delivered_is_tried_until_it_is(
    pre: int | str, seconds: float, error: Exception
) -> None:
    scene = Scene(answers={"freeze": pre}, away={"post": (seconds, error)})
    scene.pod()
    scene.snapshot()
    await for_minutes(scene, seconds / 60 + 1.2)
    assert scene.ran[0] == "pre db"
    assert "post db" in scene.ran, scene.tries
    assert scene.frozen == set()
    assert scene.tries["post"] <= 8 + seconds / 60  # later and later, and then once a minute
    note = next(note for _, reason, note in scene.told.events if reason == "PostHookFailed")
    assert note.endswith("; it is tried again for as long as the pod is there"), note


async def test_a_post_command_that_cannot_be_delivered_is_given_up_with_its_pod() -> None:
    scene = Scene(away={"post": (1e9, AWAY)})
    scene.pod()
    scene.snapshot()
    async with scene.process() as process:
        while "cut s" not in scene.ran:
            await process.look()
            scene.clock.advance(0.3)
        for _ in range(60):
            await process.look()
            scene.clock.advance(10)
        assert [one["status"]["phase"] for one in scene.runs()] == ["Post"]
        scene.api.remove(WATCHED_PODS, "db", NAMESPACE)
        await process.live(30.0)
    assert scene.runs() == []


async def test_what_was_refused_before_it_began_is_undone_twice_and_then_told() -> None:
    """A policy that lets nobody exec: there is nothing to undo, and whoever asks again is told the same again."""
    scene = Scene(away={"pre": (1e9, Forbidden("policy: no exec", code=403)), "post": (1e9, Forbidden("no", code=403))})
    scene.pod()
    scene.snapshot()
    await for_minutes(scene, 1)
    assert "HookFailed: pod db, container main: the pre command failed: policy: no exec" in scene.word()
    assert (scene.tries["post"], scene.runs()) == (2, [])


async def test_an_answer_to_the_write_that_is_lost_does_not_pass_pre_for_post() -> None:
    """How pre ended is written down, and nobody is told that it is: the next look finds a run that is held, and a result."""
    scene = Scene()
    scene.pod()
    scene.snapshot()
    patch, lost = scene.api.patch, 0

    async def deaf(kind, name, *args, **rest):  # type: ignore[no-untyped-def]
        nonlocal lost
        written = await patch(kind, name, *args, **rest)
        if rest.get("subresource") == "status" and written.status.phase == "Held":
            lost += 1
            raise Unavailable("no answer")
        return written

    scene.api.patch = deaf  # type: ignore[method-assign]
    await scene.live()
    assert lost
    assert scene.ran == ["pre db", "cut s", "post db"]


async def test_a_command_whose_task_was_ended_from_outside_is_not_waited_for() -> None:
    scene = Scene(answers={"thaw": "hang"})
    scene.pod()
    scene.snapshot()
    async with scene.process() as process:
        while "post db" not in scene.ran:
            await process.look()
            scene.clock.advance(0.3)
        scene.answers.clear()
        for task in asyncio.all_tasks():
            if task.get_name().startswith("hook "):
                task.cancel()
        await process.live(30.0)
    assert scene.ran == ["pre db", "cut s", "post db", "post db"]
    assert scene.runs() == []


# --- pods that go -----------------------------------------------------------------------------------------------------


def begins_to_go(scene: Scene, name: str = "db") -> None:
    """It has its grace: containers run on for a while."""
    scene.api.edit(WATCHED_PODS, name, NAMESPACE, merge={"metadata": {"finalizers": ["grace"], "deletionTimestamp": at(scene)}})


def is_gone(scene: Scene, name: str = "db") -> None:
    scene.api.edit(WATCHED_PODS, name, NAMESPACE, merge={"metadata": {"finalizers": None, "deletionTimestamp": at(scene)}})


async def test_a_pod_that_is_being_deleted_is_thawed_while_it_can_be() -> None:
    scene = Scene(cuts=False)
    scene.pod()
    scene.snapshot()
    async with scene.process() as process:
        while not scene.word().startswith("go@"):
            await process.look()
            scene.clock.advance(0.3)
        begins_to_go(scene)
        for _ in range(5):
            await process.look()
            scene.clock.advance(0.3)
    assert (scene.ran, scene.frozen) == (["pre db", "post db"], set())
    assert "HookFailed: pod db: it is being deleted, and the volume was not cut before" in scene.word()


async def test_a_snapshot_that_waits_goes_on_without_a_pod_that_is_being_deleted() -> None:
    scene = Scene()
    scene.pod("a")
    scene.pod("b")
    scene.snapshot()
    async with scene.process() as process:
        while not scene.ran:
            await process.look()
        first, other = ("a", "b") if scene.ran == ["pre a"] else ("b", "a")
        begins_to_go(scene, first)
        await process.live(60.0)
    assert scene.ran.index(f"post {first}") < scene.ran.index("cut s") < scene.ran.index(f"post {other}")
    assert (sorted(scene.ran), scene.frozen) == (["cut s", "post a", "post b", "pre a", "pre b"], set())


FROZEN = {"hook.snapshot.ullage.io/preset": "fsfreeze"}


async def frozen_and_gone(scene: Scene, process: HookProcess) -> None:
    scene.api.put(CLAIMS, {"metadata": {"name": "data", "namespace": NAMESPACE}})
    scene.pod(annotations=FROZEN)
    scene.snapshot()
    while not scene.frozen:
        await process.look()
        scene.clock.advance(0.3)
    is_gone(scene)


@pytest.mark.parametrize("minutes", [0.0, 10.0], ids=["which is there", "which comes ten minutes later"])
async def test_a_file_system_whose_pod_is_gone_is_thawed_in_another_pod(minutes: float) -> None:
    scene = Scene(cuts=False)
    async with scene.process() as process:
        await frozen_and_gone(scene, process)
        for _ in range(int(minutes * 6)):
            await process.look()
            scene.clock.advance(10)
        scene.pod("other", annotations={}, mount={"readOnly": True, "mountPath": "/data"})
        await process.live(60.0)
    assert scene.ran == ["freeze data in db", "unfreeze data in other"]
    assert (scene.frozen, scene.runs()) == (set(), [])


async def test_a_file_system_that_nobody_can_thaw_is_told_on_its_claim() -> None:
    scene = Scene(cuts=False)
    async with scene.process() as process:
        await frozen_and_gone(scene, process)
        await process.live(3700.0)
    notes = [note for _, reason, note in scene.told.events if reason == "MayBeFrozen"]
    assert notes == [
        "pod db is gone, and its post command has not run: the file system may be frozen. "
        "It is thawed in the first pod that mounts the claim and runs, for 60 minutes from now",
        "pod db is gone, and no pod could thaw the file system in 60 minutes: nobody tries any more. "
        "Run fsfreeze --unfreeze on its mount, in a pod or on the node",
    ]
    assert scene.runs() == []


async def test_a_file_system_goes_with_its_claim() -> None:
    scene = Scene(cuts=False)
    async with scene.process() as process:
        await frozen_and_gone(scene, process)
        scene.api.remove(CLAIMS, "data", NAMESPACE)
        await process.live(30.0)
    assert scene.runs() == []


async def test_a_kill_at_any_effect_thaws_the_file_system_of_a_pod_that_went_meanwhile() -> None:
    moment = 0
    while True:
        moment += 1
        scene = Scene()
        scene.api.put(CLAIMS, {"metadata": {"name": "data", "namespace": NAMESPACE}})
        scene.pod(annotations=FROZEN)
        scene.snapshot()
        if not await scene.live(blows_at=moment):
            break
        is_gone(scene)
        scene.pod("other", annotations={})
        await scene.live(seconds=100.0)
        assert (scene.frozen, scene.runs()) == (set(), []), (moment, scene.ran)
        assert scene.is_cut(), (moment, scene.ran)
    assert moment > 12


async def test_a_pod_that_came_in_anothers_place_while_pre_was_on_its_way_is_thawed() -> None:
    """Exec knows pods by their names."""
    scene = Scene(cuts=False)
    scene.pod()
    scene.snapshot()
    original = scene.run_command

    async def exchanged(request: ExecRequest) -> ExecOutcome:
        if scene.ran == []:
            is_gone(scene)
            scene.pod(uid="another")
        return await original(request)

    scene.run_command = exchanged  # type: ignore[method-assign]
    async with scene.process() as process:
        while "pre db" not in scene.ran:
            await process.look()
        scene.api.remove(GA.snapshots, "s", NAMESPACE)
        await process.live(60.0)
    assert (scene.ran, scene.frozen, scene.runs()) == (["pre db", "post db"], set(), [])


async def test_pre_is_not_run_in_a_pod_that_only_the_cache_has() -> None:
    scene = Scene()
    scene.pod()
    scene.snapshot()
    find, at_last = scene.api.find, False

    async def live(kind, name, namespace=""):  # type: ignore[no-untyped-def]
        return None if kind is WATCHED_PODS and not at_last else await find(kind, name, namespace)

    scene.api.find = live  # type: ignore[method-assign]
    async with scene.process() as process:
        for _ in range(20):
            await process.look()
            scene.clock.advance(0.3)
        assert scene.ran == []
        at_last = True
        await process.live(60.0)
    assert scene.ran == ["pre db", "cut s", "post db"]


async def test_two_snapshots_under_one_freeze_share_it() -> None:
    scene = Scene()
    scene.pod()
    scene.snapshot("a")
    scene.snapshot("b")
    await scene.live()
    assert scene.ran[0] == "pre db"
    assert scene.ran[-1] == "post db"
    assert sorted(scene.ran[1:-1]) == ["cut a", "cut b"]


async def test_pods_without_hooks_and_those_that_do_not_run_hold_nothing() -> None:
    scene = Scene()
    scene.pod("plain", annotations={})
    scene.pod("over")
    scene.api.edit(WATCHED_PODS, "over", NAMESPACE, merge={"status": {"phase": "Succeeded"}})
    scene.snapshot()
    await scene.live()
    assert scene.ran == ["cut s unfrozen"]


async def test_annotations_that_make_no_sense_are_told_on_the_snapshot() -> None:
    scene = Scene()
    scene.pod(annotations={f"{PRE}/command": "x", f"{PRE}/timeout": "soon"})
    scene.snapshot()
    await scene.live()
    assert scene.ran == []
    assert "HookInvalid: pod db: metadata.annotations[pre.hook.snapshot.ullage.io/timeout] 'soon'" in scene.word()


async def test_what_is_not_cut_in_time_is_thawed_and_not_cut_any_more() -> None:
    scene = Scene(cuts=False)
    scene.pod()
    scene.snapshot()
    await scene.live(seconds=200.0)
    assert (scene.ran, scene.frozen) == (["pre db", "post db"], set())
    assert "HookTimedOut: pod db: the volume was not cut in 120 s" in scene.word()


async def test_a_cut_that_came_too_late_is_said_to_be() -> None:
    """Its driver was asked in time, and has answered after the thaw."""
    scene = Scene(cuts=False)
    scene.pod()
    scene.snapshot()
    async with scene.process() as process:
        while not scene.word().startswith("go@"):
            await process.look()
            scene.clock.advance(0.3)
        scene.api.edit(GA.records, "snapcontent-uid-s", merge={"metadata": {"annotations": {"ullage.io/creating": "true"}}})
        while "post db" not in scene.ran:
            await process.look()
            scene.clock.advance(10)
        scene.clock.advance(5)
        now = int(scene.clock.now().timestamp()) * 10**9
        merge = {"metadata": {"annotations": {ESTIMATE: None}}, "status": {"snapshotHandle": "h", "creationTime": now}}
        scene.api.edit(GA.records, "snapcontent-uid-s", merge=merge)
        await process.look()
    found = scene.api.body(GA.snapshots, "s", NAMESPACE)
    assert found is not None
    assert "what a power cut would leave" in found["metadata"]["annotations"][LATE_NOTE]
    assert "CutAfterHooks" in scene.told.reasons


async def test_one_whose_driver_never_answers_keeps_no_other_from_the_pod() -> None:
    scene = Scene(cuts=False)
    scene.pod(claims=("data", "more"))
    scene.snapshot("stuck")
    async with scene.process() as process:
        while not scene.word("stuck").startswith("go@"):
            await process.look()
            scene.clock.advance(0.3)
        begun = {"metadata": {"annotations": {"ullage.io/creating": "true"}}}
        scene.api.edit(GA.records, "snapcontent-uid-stuck", merge=begun)
        while "post db" not in scene.ran:
            await process.look()
            scene.clock.advance(10)
        scene.snapshot("other", claim="more")
        scene.cuts = True
        scene.api.edit(GA.snapshots, "stuck", NAMESPACE, merge={"metadata": {"annotations": {"ullage.io/cut": "go@never"}}})
        await process.live(60.0)
        assert (scene.is_cut("other"), scene.is_cut("stuck")) == (True, False)
        assert scene.ran == ["pre db", "post db", "pre db", "cut other", "post db"]
        now = int(scene.clock.now().timestamp()) * 10**9
        merge = {"metadata": {"annotations": {ESTIMATE: None}}, "status": {"snapshotHandle": "h", "creationTime": now}}
        scene.api.edit(GA.records, "snapcontent-uid-stuck", merge=merge)
        await process.live(20.0)
    found = scene.api.body(GA.snapshots, "stuck", NAMESPACE)
    assert found is not None
    assert "the post command in pod db had begun at 2026-01-01T00:0" in found["metadata"]["annotations"][LATE_NOTE]


def slowly(scene: Scene, takes: float) -> None:
    """Pre commands take so long."""
    run, advance = scene.run_command, scene.clock.advance
    waiting: list[tuple[float, asyncio.Event]] = []

    def on(seconds: float) -> None:
        advance(seconds)
        for due, ended in waiting:
            if scene.clock.monotonic() >= due:
                ended.set()

    async def slow(request: ExecRequest) -> ExecOutcome:
        if request.command[0] == "freeze":
            waiting.append((scene.clock.monotonic() + takes, asyncio.Event()))
            await waiting[-1][1].wait()
        return await run(request)

    scene.run_command, scene.clock.advance = slow, on  # type: ignore[method-assign]


async def test_a_pod_is_not_frozen_until_the_volume_is_measured_again() -> None:
    """One that has waited for long is measured once a minute, and the estimate was fresh when the pre command began."""
    scene = Scene()
    scene.pod(annotations={f"{PRE}/command": '["freeze"]', f"{POST}/command": '["thaw"]', MAX_FREEZE: "30s"})
    scene.snapshot()
    slowly(scene, 15.0)
    async with scene.process() as process:
        await process.look()
        scene.measures = False
        await process.live(60.0)
    assert scene.ran == ["pre db", "cut s", "post db"]


async def test_commands_of_many_pods_that_take_too_long_together_are_not_tried_without_end() -> None:
    scene = Scene()
    for name in ("a", "b", "c"):
        scene.pod(name)
    scene.snapshot()
    slowly(scene, 70.0)
    async with scene.process() as process:
        for _ in range(100):
            await process.look()
            scene.clock.advance(5)
    assert scene.ran.count("pre a") == 1
    assert "HookTimedOut: pod " in scene.word()
    assert "3 commands run before this cut, and not all had ended 120 s after the first one" in scene.word()
    assert (scene.is_cut(), scene.frozen, scene.runs()) == (False, set(), [])


async def test_a_snapshot_that_is_gone_without_a_word_holds_nothing() -> None:
    scene = Scene(cuts=False)
    scene.pod()
    scene.snapshot()
    async with scene.process() as process:
        while "pre db" not in scene.ran:
            await process.look()
        scene.api.remove(GA.snapshots, "s", NAMESPACE)
        await process.live(60.0)
    assert (scene.ran, scene.frozen, scene.runs()) == (["pre db", "post db"], set(), [])


async def test_a_pod_that_is_gone_needs_no_thaw() -> None:
    scene = Scene(answers={"freeze": "hang"})
    scene.pod()
    scene.snapshot()
    async with scene.process() as process:
        while "pre db" not in scene.ran:
            await process.look()
        scene.api.remove(WATCHED_PODS, "db", NAMESPACE)
        await process.live(60.0)
    assert scene.ran == ["pre db", "cut s"]
    assert scene.runs() == []


@pytest.mark.parametrize("claims", [("data",), ("data", "logs")], ids=["one claim", "two claims of one pod"])
async def test_the_preset_freezes_the_mount_of_the_claim(claims: tuple[str, ...]) -> None:
    scene = Scene()
    scene.pod(claims=claims, annotations={"hook.snapshot.ullage.io/preset": "fsfreeze"})
    seen: list[tuple[str, ...]] = []
    for claim in claims:
        scene.snapshot(f"s-{claim}", claim=claim)
    original = scene.run_command

    async def watched(request):  # type: ignore[no-untyped-def]
        seen.append(tuple(request.command))
        return await original(request)

    scene.run_command = watched  # type: ignore[method-assign]
    await scene.live()
    wanted = {("fsfreeze", verb, f"/{claim}") for claim in claims for verb in ("--freeze", "--unfreeze")}
    assert (set(seen), len(seen)) == (wanted, len(wanted))


async def test_a_file_system_that_two_pods_write_to_is_frozen_once() -> None:
    scene = Scene()
    for name in ("a", "b"):
        scene.pod(name, annotations=FROZEN)
    scene.snapshot()
    await scene.live()
    assert scene.ran == ["freeze data in a", "cut s", "unfreeze data in a"]


async def test_a_pod_that_comes_while_the_file_system_is_frozen_changes_nothing() -> None:
    scene = Scene(cuts=False)
    scene.pod("b", annotations=FROZEN)
    scene.snapshot("s")
    async with scene.process() as process:
        while not scene.frozen:
            await process.look()
        scene.pod("a", annotations=FROZEN)
        scene.snapshot("t")
        scene.cuts = True
        await process.live(60.0)
    assert (scene.ran[0], scene.ran[-1]) == ("freeze data in b", "unfreeze data in b")
    assert sorted(scene.ran[1:-1]) == ["cut s", "cut t"]


async def test_more_pods_than_can_be_told_are_too_many_and_that_is_said() -> None:
    scene = Scene()
    for number in range(MOST_RUNS + 1):
        scene.pod(f"p{number}")
    scene.snapshot()
    async with scene.process() as process:
        for _ in range(4):
            await process.look()
    assert f"HookInvalid: more than {MOST_RUNS} commands would be run before this cut" in scene.word()
    assert (scene.ran, scene.runs()) == ([], [])


# --- what it costs to wait --------------------------------------------------------------------------------------------


def reads(scene: Scene) -> list[str]:
    """What is read from the API itself, by kind, as it comes."""
    seen: list[str] = []
    find = scene.api.find

    async def watched(kind, name, namespace=""):  # type: ignore[no-untyped-def]
        seen.append(kind.plural)
        return await find(kind, name, namespace)

    scene.api.find = watched  # type: ignore[method-assign]
    return seen


async def test_who_waits_for_a_pre_command_asks_the_api_nothing() -> None:
    """Of three pods two are frozen, and the third one takes its time."""
    scene = Scene()
    for name in ("a", "b", "c"):
        scene.pod(name)
    scene.snapshot("s")
    scene.snapshot("t")
    async with scene.process() as process:
        while len(scene.ran) < 2:
            await process.look()
            scene.clock.advance(0.3)
        scene.answers["freeze"] = "hang"
        while len(scene.ran) < 3:
            await process.look()
            scene.clock.advance(0.3)
        await process.look()
        seen = reads(scene)
        for _ in range(20):
            await process.look()
            scene.clock.advance(1.0)
    assert seen.count("hookruns") == 0


async def test_who_waits_for_anothers_run_to_end_asks_the_api_nothing() -> None:
    scene = Scene(answers={"thaw": "hang"})
    scene.pod()
    scene.snapshot("s")
    async with scene.process() as process:
        while "post db" not in scene.ran:
            await process.look()
            scene.clock.advance(0.3)
        scene.snapshot("t")
        for _ in range(3):
            await process.look()
        seen = reads(scene)
        for _ in range(20):
            await process.look()
            scene.clock.advance(1.0)
    assert seen.count("hookruns") == 0


async def test_nobody_is_told_to_be_cut_by_what_only_the_cache_has() -> None:
    scene = Scene(cuts=False)
    scene.pod()
    scene.snapshot()
    find = scene.api.find

    async def ended(kind, name, namespace=""):  # type: ignore[no-untyped-def]
        found = await find(kind, name, namespace)
        if kind is HOOK_RUNS and found is not None and found.status.phase == "Held":
            return replace(found, status=replace(found.status, phase="Post"))
        return found

    scene.api.find = ended  # type: ignore[method-assign]
    async with scene.process() as process:
        for _ in range(30):
            await process.look()
            scene.clock.advance(0.3)
    assert "pre db" in scene.ran
    assert scene.word() == "hold"


async def test_holders_are_asked_for_a_few_at_a_time_and_only_while_they_hold() -> None:
    scene = Scene(cuts=False)
    scene.pod()
    scene.snapshot()
    asked: list[str] = []
    async with scene.process() as process:
        original = process.gone

        async def gone(holder: HookHolder) -> bool:
            asked.append(holder.uid)
            return await original(holder)

        process.gone = gone  # type: ignore[method-assign]
        while not scene.word().startswith("go@"):
            await process.look()
            scene.clock.advance(0.3)
        name = scene.runs()[0]["metadata"]["name"]
        some = [{**scene.runs()[0]["spec"]["holders"][0], "uid": f"other-{number}"} for number in range(50)]
        scene.api.edit(HOOK_RUNS, name, merge={"spec": {"holders": [*scene.runs()[0]["spec"]["holders"], *some]}})
        asked.clear()
        scene.clock.advance(LOOK_SECONDS)
        await process.look()
        assert 0 < len(asked) <= MOST_LOOKED_AT
        for _ in range(4):
            scene.clock.advance(LOOK_SECONDS)
            await process.look()
        assert {one["uid"] for one in scene.runs()[0]["spec"]["holders"]} == {"uid-s"}
        scene.answers["thaw"] = "hang"
        while "post db" not in scene.ran:
            scene.clock.advance(LOOK_SECONDS)
            await process.look()
        asked.clear()
        scene.clock.advance(LOOK_SECONDS)
        await process.look()
        assert asked == []


async def test_a_holder_that_a_cache_has_is_there_and_costs_nothing() -> None:
    scene = Scene()
    scene.snapshot("s")
    async with scene.process() as process:
        await process.current()
        seen = reads(scene)
        holders = LiveHolders(cast(Client, scene.api), {(GA.snapshots.group, "volumesnapshots"): process.caches[GA.snapshots]})
        there = HookHolder(
            group=GA.snapshots.group, version="v1", resource="volumesnapshots", namespace=NAMESPACE, name="s", uid="uid-s"
        )
        assert not await holders.gone(there)
        assert seen == []
        assert await holders.gone(replace(there, uid="before"))  # and one that none has is asked of the API itself
        assert seen == ["volumesnapshots"]


# --- the rules of a run -----------------------------------------------------------------------------------------------

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PAIR = {"pre": HookCommand(command=("freeze",)), "post": HookCommand(command=("thaw",))}
SOMEBODY = HookHolder(group="g", version="v1", resource="volumesnapshots", namespace=NAMESPACE, name="s", uid="u")


def in_phase(phase: Phase, *, claim: str = "", **status: Any) -> HookRun:
    spec = HookRunSpec(
        namespace=NAMESPACE, pod="db", pod_uid="uid-db", max_freeze_seconds=120, claim=claim, holders=(SOMEBODY,), **PAIR
    )
    return HookRun(spec=spec, status=HookRunStatus(phase=phase, **status))


FAILED_ONCE = HookOutcome(ended_at=timestamp(NOW), attempts=1, delivery="Unknown")
FROZE = HookOutcome(started_at="x", ended_at=timestamp(NOW), attempts=1, delivery="Ended", succeeded=True)
FROZE_NOTHING = replace(FROZE, succeeded=False)


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        pytest.param(
            RunFacts(run=in_phase("Held", until=timestamp(NOW + timedelta(hours=2))), now=NOW),
            RunStep.POST,
            id="more time is left than there ever was: the clock was set back",
        ),
        pytest.param(
            RunFacts(run=in_phase("Post", post=FAILED_ONCE), now=NOW - timedelta(hours=2)),
            RunStep.POST,
            id="the last try is in the future: the clock was set back",
        ),
        pytest.param(RunFacts(run=in_phase("Post", post=FAILED_ONCE), now=NOW), RunStep.REST, id="it failed a moment ago"),
        pytest.param(RunFacts(run=in_phase("Failed"), now=NOW, room=False), RunStep.REST, id="no place for a post command"),
        pytest.param(
            RunFacts(run=in_phase("Post", post=FAILED_ONCE), now=NOW + timedelta(hours=1), room=False),
            RunStep.REST,
            id="no place for another try",
        ),
        pytest.param(
            RunFacts(run=in_phase("Pre"), now=NOW, running=True, pod_runs=False),
            RunStep.REST,
            id="pre runs in a pod that is being deleted: what it freezes after post would stay frozen",
        ),
        pytest.param(
            RunFacts(run=in_phase("Post", post=replace(FAILED_ONCE, pod="other")), now=NOW, running=True, pod_there=False),
            RunStep.REST,
            id="another pod is thawing it",
        ),
    ],
)
def test_what_comes_next(facts: RunFacts, step: RunStep) -> None:
    assert next_run_step(facts).step is step


@pytest.mark.parametrize(
    ("claim", "pre", "phase"),
    [
        pytest.param("data", FROZE, "Post", id="what a preset froze is to be thawed elsewhere"),
        pytest.param("data", replace(FROZE_NOTHING, delivery="Unknown"), "Post", id="what it may have frozen, too"),
        pytest.param("data", FROZE_NOTHING, "Done", id="a preset that failed has frozen nothing"),
        pytest.param("data", replace(FROZE_NOTHING, delivery="Refused"), "Done", id="nor one that was refused"),
        pytest.param("", FROZE, "Done", id="commands of its own have nothing left to undo"),
    ],
)
def test_what_comes_next_when_the_pod_is_gone(claim: str, pre: HookOutcome, phase: str) -> None:
    run = in_phase("Held", claim=claim, pre=pre, until=timestamp(NOW + timedelta(minutes=1)))
    status = next_run_step(RunFacts(run=run, now=NOW, pod_there=False, pod_runs=False)).status
    assert status is not None
    assert (status.phase, status.reason) == (phase, "PodGone")


@pytest.mark.parametrize(
    ("pre", "reason", "result", "tries"),
    [
        pytest.param(FROZE, "", CommandResult(False), 8, id="a post command that fails"),
        pytest.param(FROZE_NOTHING, "HookFailed", CommandResult(False), 2, id="after a pre command that failed"),
        pytest.param(FROZE_NOTHING, "", CommandResult(False), 8, id="after one whose failure was passed over"),
        pytest.param(
            replace(FROZE_NOTHING, delivery="Unknown"), "HookFailed", CommandResult(False), 8, id="after one that may have run"
        ),
        pytest.param(FROZE, "", CommandResult(False, delivery="GivenUp"), 8, id="one that prints too much"),
        pytest.param(FROZE, "", CommandResult(False, delivery="Refused"), None, id="one that nobody runs"),
        pytest.param(FROZE, "", CommandResult(False, delivery="Unknown"), None, id="one of which nobody knows"),
        pytest.param(
            FROZE_NOTHING, "HookFailed", CommandResult(False, delivery="Unknown"), None, id="the same, after a failure"
        ),
        pytest.param(
            replace(FROZE_NOTHING, delivery="Refused"),
            "HookFailed",
            CommandResult(False, delivery="Unknown"),
            2,
            id="after nothing",
        ),
    ],
)
def test_how_often_a_post_command_is_tried(pre: HookOutcome, reason: str, result: CommandResult, tries: int | None) -> None:
    status = HookRunStatus(phase="Post", pre=pre, reason=reason)
    for number in range(1, 100):
        begun = replace(status, post=replace(status.post, attempts=number))
        status = after_post(replace(in_phase("Post"), status=begun), result, NOW)
        if status.phase == "Done":
            break
    assert (number if status.phase == "Done" else None) == tries


async def test_a_pod_whose_containers_have_ended_for_good_is_gone() -> None:
    scene = Scene(away={"post": (1e9, AWAY)})
    scene.pod()
    scene.snapshot()
    async with scene.process() as process:
        while "cut s" not in scene.ran:
            await process.look()
            scene.clock.advance(0.3)
        scene.api.edit(WATCHED_PODS, "db", NAMESPACE, merge={"status": {"phase": "Succeeded"}})
        await process.live(60.0)
    assert scene.runs() == []
