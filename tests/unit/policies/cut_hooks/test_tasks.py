"""Places for commands: pods that hang delay their own namespace, and what undoes has places that nothing else takes."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from msgspec.structs import replace

from ullage.kube.client.websockets.remote_command import ExecOutcome, ExecRequest
from ullage.kube.kinds import Meta
from ullage.policies.cut_hooks.api import HookCommand
from ullage.policies.cut_hooks.controllers.run_perform_rules import undoes
from ullage.policies.cut_hooks.run import HookOutcome, HookRun, HookRunSpec, HookRunStatus, Phase
from ullage.policies.cut_hooks.tasks import OTHERS, UNDOING, CommandTasks

COMMAND = HookCommand(command=("sleep", "600"))
TUNNELS = 100  # that the embedded API server gives to one identity


class Hanging:
    """Pods whose commands never end."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()

    async def run_command(self, request: ExecRequest) -> ExecOutcome:
        self.running[request.namespace] += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running[request.namespace] -= 1
        raise AssertionError("unreachable")


def hook_run(namespace: str, number: int, *, phase: Phase = "", frozen: bool = False) -> HookRun:
    spec = HookRunSpec(namespace=namespace, pod=f"p{number}", pod_uid=f"{namespace}-{number}", max_freeze_seconds=120)
    pre = (
        HookOutcome(started_at="2026-01-01T00:00:00Z", attempts=1, delivery="Ended", succeeded=True)
        if frozen
        else HookOutcome()
    )
    meta = Meta(name=f"{namespace}-{number}", uid=f"{namespace}-{number}")
    return HookRun(metadata=meta, spec=spec, status=HookRunStatus(phase=phase, pre=pre))


@contextlib.asynccontextmanager
async def hanging() -> AsyncIterator[tuple[CommandTasks, Hanging]]:
    pods = Hanging()
    async with CommandTasks(pods) as tasks:
        yield tasks, pods


async def begin(tasks: CommandTasks, run: HookRun) -> bool:
    """What the controller does: a place, the intent written down, and the command."""
    with tasks.place(run) as there:
        if there:
            phase: Phase = "Post" if run.status.phase else "Pre"
            await asyncio.sleep(0)  # the write
            tasks.start(replace(run, status=replace(run.status, phase=phase)), COMMAND, pod=run.spec.pod)
    await asyncio.sleep(0)
    return there


async def test_post_commands_that_hang_leave_other_namespaces_alone() -> None:
    async with hanging() as (tasks, pods):
        begun = [await begin(tasks, hook_run("attacker", number, phase="Held")) for number in range(120)]
        assert Counter(begun) == {True: 8, False: 112}
        assert pods.running == {"attacker": 8}
        assert await begin(tasks, hook_run("victim", 0))
        assert await begin(tasks, hook_run("victim", 1, phase="Held", frozen=True))


async def test_workers_that_look_at_the_same_time_do_not_pass_the_bound() -> None:
    async with hanging() as (tasks, pods):
        await asyncio.gather(*(begin(tasks, hook_run("attacker", number, phase="Held")) for number in range(120)))
        assert pods.running == {"attacker": 8}


async def test_what_undoes_has_places_that_nothing_else_takes() -> None:
    async with hanging() as (tasks, pods):
        for number in range(30):
            for namespace in range(100):
                await begin(tasks, hook_run(f"n{namespace}", number, phase="Held" if number % 2 else ""))
        assert pods.running.total() == OTHERS.most
        assert not await begin(tasks, hook_run("late", 0))
        assert await begin(tasks, hook_run("late", 1, phase="Failed", frozen=True))


async def test_a_tenant_with_several_namespaces_leaves_places_to_those_that_have_none() -> None:
    async with hanging() as (tasks, pods):
        for number in range(20):
            for namespace in ("a", "b", "c"):
                await begin(tasks, hook_run(namespace, number, phase="Held", frozen=True))
        assert max(pods.running.values()) <= UNDOING.of_one
        thawed = [await begin(tasks, hook_run(f"victim-{number}", 0, phase="Held", frozen=True)) for number in range(10)]
        assert all(thawed)


async def test_a_try_of_the_same_run_is_not_kept_out_by_the_one_before() -> None:
    async with hanging() as (tasks, _):
        for number in range(8):
            await begin(tasks, hook_run("n", number, phase="Held", frozen=True))
        assert tasks.has_room(hook_run("n", 3, phase="Post", frozen=True))
        assert not tasks.has_room(hook_run("n", 9, phase="Post", frozen=True))


async def test_a_place_is_free_again_when_the_intent_could_not_be_written() -> None:
    async with hanging() as (tasks, _):
        for number in range(20):
            with contextlib.suppress(ConnectionError), tasks.place(hook_run("n", number)) as there:
                assert there
                raise ConnectionError
        assert tasks.has_room(hook_run("n", 99))


def test_all_places_together_are_fewer_than_an_api_server_gives() -> None:
    assert UNDOING.most + OTHERS.most < TUNNELS


def test_a_run_undoes_from_the_beginning_of_its_pre_command_on() -> None:
    assert not undoes(hook_run("n", 0))
    assert not undoes(hook_run("n", 0, phase="Held")), "it has no pre command"
    frozen = hook_run("n", 0, phase="Failed", frozen=True)
    assert undoes(frozen)
    refused = replace(frozen, status=replace(frozen.status, pre=replace(frozen.status.pre, delivery="Refused")))
    assert not undoes(refused), "nothing ran"
