"""Commands that are running in pods, beside the reconcilers: a pod that hangs keeps no worker.

How many may run at once is bounded for each namespace, for pre commands only: whoever has pods that hang waits for himself.
What a command did is kept until it is written down; if this process dies before, nobody knows, and the run is undone.
A result is of one try of one command: whoever writes it down and gets no answer must not take it for that of the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from ullage.errors import UllageError
from ullage.kube.client.websockets.remote_command import ExecFlooded, ExecOutcome, ExecRefused, ExecRequest
from ullage.kube.errors import ApiError
from ullage.policies.cut_hooks.api import HookCommand
from ullage.policies.cut_hooks.controllers.run.perform.rules import CommandResult
from ullage.policies.cut_hooks.run import Delivery, HookRun

logger = logging.getLogger(__name__)

MOST_PRE: Final = 8  # pre commands of one namespace at the same time
SHOWN: Final = 300  # characters of what a command printed


class CommandRunner(Protocol):
    async def run_command(self, request: ExecRequest) -> ExecOutcome: ...


@dataclass(slots=True)
class _Command:
    uid: str  # of the run
    stage: tuple[str, int]  # which command it is, and which try
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
        found = self._of(run)
        return found is not None and found.result is None and not found.task.done()

    def result(self, run: HookRun) -> CommandResult | None:
        found = self._of(run)
        return found.result if found is not None else None

    def _of(self, run: HookRun) -> _Command | None:
        found = self._commands.get(run.metadata.name)
        return found if found is not None and (found.uid, found.stage) == (run.metadata.uid, _stage(run)) else None

    def forget(self, name: str) -> None:
        found = self._commands.pop(name, None)
        if found is not None and found.result is None:
            found.task.cancel()

    def has_room(self, namespace: str) -> bool:
        running = (one for one in self._commands.values() if one.namespace == namespace and one.is_pre and not one.task.done())
        return sum(1 for _ in running) < MOST_PRE

    def start(self, run: HookRun, command: HookCommand, *, pod: str) -> None:
        """The command that is written down as begun, in a pod of the run's namespace."""
        name = run.metadata.name
        self.forget(name)

        async def work() -> None:
            found = await self._run(run.spec.namespace, pod, command)
            own = self._commands.get(name)
            if own is not None and own.task is asyncio.current_task():
                own.result = found
                self.over(name)

        task = asyncio.create_task(work(), name=f"hook {name}")
        is_pre = run.status.phase == "Pre"
        self._commands[name] = _Command(run.metadata.uid, _stage(run), run.spec.namespace, is_pre, task)

    async def _run(self, namespace: str, pod: str, command: HookCommand) -> CommandResult:
        request = ExecRequest(
            namespace=namespace,
            pod=pod,
            container=command.container,
            command=command.command,
            timeout=float(command.timeout_seconds),
        )
        try:
            return told(await self._client.run_command(request))
        except UllageError as error:
            return CommandResult(False, str(error)[:SHOWN], _delivery(error))
        except Exception as error:  # whatever it is: a run of which nobody hears any more would keep its pod frozen
            logger.exception("a command in a pod ended in an error that nobody expects", extra={"command": request.what})
            return CommandResult(False, f"{type(error).__name__}: {error}"[:SHOWN], "Unknown")


def _stage(run: HookRun) -> tuple[str, int]:
    status = run.status
    return status.phase, status.pre.attempts if status.phase == "Pre" else status.post.attempts


def _delivery(error: UllageError) -> Delivery:
    """Nothing ran where the API server or the kubelet blames the request. A 5xx may be of a proxy that has passed it on, and
    lost the connection then."""
    if isinstance(error, ExecFlooded):
        return "GivenUp"
    if isinstance(error, ExecRefused) and error.reason != "Unavailable":
        return "Refused"
    return "Refused" if isinstance(error, ApiError) and 400 <= error.code < 500 else "Unknown"


def told(outcome: ExecOutcome) -> CommandResult:
    printed = " ".join((outcome.stderr or outcome.stdout).decode("utf-8", "replace").split())[:SHOWN]
    shown = "".join(letter for letter in printed if letter.isprintable())
    said = f"exit code {outcome.exit_code}" + (f": {shown}" if shown and outcome.exit_code else "")
    return CommandResult(outcome.exit_code == 0, said)
