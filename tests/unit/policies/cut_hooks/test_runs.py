"""Hooks around a cut: the order of what is run, every way in which a command does not end well, and a kill at every effect."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from tests.unit.policies.cut_hooks.scene import NAMESPACE, POST, PRE, Scene
from ullage.kube.builtin.watched_pods import PODS
from ullage.kube.client.websockets.remote_command import ExecOutcome, ExecRequest
from ullage.policies.cut_hooks.controllers.snapshot.cut.controller import LATE_NOTE
from ullage.policies.cut_hooks.pod_annotations import MAX_FREEZE
from ullage.policies.cut_hooks.resolution import MOST_RUNS
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.model import ESTIMATE


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
    scene.api.edit(PODS, "over", NAMESPACE, merge={"status": {"phase": "Succeeded"}})
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
        scene.api.remove(PODS, "db", NAMESPACE)
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
