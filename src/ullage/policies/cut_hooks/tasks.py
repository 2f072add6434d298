"""Commands that are running in pods, beside the reconcilers: a pod that hangs keeps no worker.

How many may run at once is bounded for each namespace, for pre commands only: whoever has pods that hang waits for himself.
What a command did is kept until it is written down; if this process dies before, nobody knows, and the run is undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from ullage.errors import UllageError
from ullage.kube.client.websockets.remote_command import ExecOutcome, ExecRequest
from ullage.kube.errors import NotFound
from ullage.policies.cut_hooks.api import HookCommand
from ullage.policies.cut_hooks.controllers.run.perform.rules import CommandResult
from ullage.policies.cut_hooks.run import HookRun

MOST_PRE: Final = 8  # pre commands of one namespace at the same time
SHOWN: Final = 300  # characters of what a command printed


class CommandRunner(Protocol):
    async def run_command(self, request: ExecRequest) -> ExecOutcome: ...


@dataclass(slots=True)
class _Command:
    uid: str  # of the run
    namespace: str
    is_pre: bool
    task: asyncio.Task[None]
    result: CommandResult | None = None


class CommandTasks:
    """`over` is called with the name of a run when its command has ended."""

    def __init__(self, client: CommandRunner) -> None:
        self._client = client
        self._commands: dict[str, _Command] = {}
        self.over: Callable[[str], None] = lambda name: None

    async def __aenter__(self) -> CommandTasks:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [one.task for one in self._commands.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._commands.clear()

    def is_running(self, run: HookRun) -> bool:
        found = self._commands.get(run.metadata.name)
        return found is not None and found.uid == run.metadata.uid and found.result is None

    def result(self, run: HookRun) -> CommandResult | None:
        found = self._commands.get(run.metadata.name)
        return found.result if found is not None and found.uid == run.metadata.uid else None

    def forget(self, name: str) -> None:
        found = self._commands.pop(name, None)
        if found is not None and found.result is None:
            found.task.cancel()

    def has_room(self, namespace: str) -> bool:
        running = (one for one in self._commands.values() if one.namespace == namespace and one.is_pre and one.result is None)
        return sum(1 for _ in running) < MOST_PRE

    def start(self, run: HookRun, command: HookCommand, *, is_pre: bool) -> None:
        name = run.metadata.name
        self.forget(name)

        async def work() -> None:
            found = await self._run(run, command)
            own = self._commands.get(name)
            if own is not None and own.task is asyncio.current_task():
                own.result = found
                self.over(name)

        task = asyncio.create_task(work(), name=f"hook {name}")
        self._commands[name] = _Command(run.metadata.uid, run.spec.namespace, is_pre, task)

    async def _run(self, run: HookRun, command: HookCommand) -> CommandResult:
        request = ExecRequest(
            namespace=run.spec.namespace,
            pod=run.spec.pod,
            container=command.container,
            command=command.command,
            timeout=float(command.timeout_seconds),
        )
        try:
            return told(await self._client.run_command(request))
        except NotFound:
            return CommandResult(False, "the pod is gone", gone=True)
        except UllageError as error:
            return CommandResult(False, str(error)[:SHOWN])


def told(outcome: ExecOutcome) -> CommandResult:
    printed = " ".join((outcome.stderr or outcome.stdout).decode("utf-8", "replace").split())[:SHOWN]
    shown = "".join(letter for letter in printed if letter.isprintable())
    said = f"exit code {outcome.exit_code}" + (f": {shown}" if shown and outcome.exit_code else "")
    return CommandResult(outcome.exit_code == 0, said)
