"""Commands that are running in pods, beside the reconcilers: a pod that hangs keeps no worker.

How many may run at once is bounded for each namespace and in all, so pods that hang delay their own namespace alone.
Commands that undo what a pre command did have places of their own, which no other command takes: a pod that is frozen is thawed
however many others hang. The last places of each sort are for namespaces that have none.
What a command did is kept until it is written down; if this process dies before, nobody knows, and the run is undone.
A result is of one try of one command: whoever writes it down and gets no answer must not take it for that of the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from ullage.errors import UllageError
from ullage.kube.client.websockets.remote_command import ExecFlooded, ExecOutcome, ExecRefused, ExecRequest
from ullage.kube.errors import ApiError
from ullage.policies.cut_hooks.api import HookCommand
from ullage.policies.cut_hooks.controllers.run_perform_rules import CommandResult, undoes
from ullage.policies.cut_hooks.run import Delivery, HookRun

logger = logging.getLogger(__name__)

SHOWN: Final = 300  # characters of what a command printed


@dataclass(frozen=True, slots=True)
class CommandPlaces:
    """How many commands of one sort run at the same time. `kept` of them are for namespaces that have none of the sort."""

    most: int
    of_one: int
    kept: int

    def has_room(self, running: int, own: int) -> bool:
        return own < self.of_one and running < self.most and (not own or running < self.most - self.kept)


# Together less than the 100 that the embedded API server, as one that counts, gives to one identity.
UNDOING: Final = CommandPlaces(most=32, of_one=8, kept=16)  # post commands of a pre command that may have run
OTHERS: Final = CommandPlaces(most=60, of_one=8, kept=20)


class CommandRunner(Protocol):
    async def run_command(self, request: ExecRequest) -> ExecOutcome: ...


@dataclass(frozen=True, slots=True)
class _Place:
    namespace: str
    undoes: bool


@dataclass(slots=True)
class _Command:
    uid: str  # of the run
    stage: tuple[str, int]  # which command it is, and which try
    place: _Place
    task: asyncio.Task[None]
    result: CommandResult | None = None


class CommandTasks:
    """`over` is called with the name of a run when its command has ended."""

    def __init__(self, client: CommandRunner) -> None:
        self._client = client
        self._commands: dict[str, _Command] = {}
        self._kept: dict[str, _Place] = {}  # by run: for a command that is about to be started
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

    def has_room(self, run: HookRun) -> bool:
        """Whether the next command of the run may begin."""
        wanted = _Place(run.spec.namespace, undoes(run))
        taken = [one.place for name, one in self._commands.items() if name != run.metadata.name and not one.task.done()]
        taken += [place for name, place in self._kept.items() if name != run.metadata.name]
        same = [place for place in taken if place.undoes == wanted.undoes]
        own = sum(1 for place in same if place.namespace == wanted.namespace)
        return (UNDOING if wanted.undoes else OTHERS).has_room(len(same), own)

    @contextlib.contextmanager
    def place(self, run: HookRun) -> Iterator[bool]:
        """Keeps a place for the next command of the run inside the block, in which it is written down and started. Gives False
        where there is none. Several workers look for places at the same time."""
        name = run.metadata.name
        if not self.has_room(run):
            yield False
            return
        self._kept[name] = _Place(run.spec.namespace, undoes(run))
        try:
            yield True
        finally:
            del self._kept[name]

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
        self._commands[name] = _Command(run.metadata.uid, _stage(run), _Place(run.spec.namespace, _undoes_now(run)), task)

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


def _undoes_now(run: HookRun) -> bool:
    """Of the command that has been written down as begun."""
    return run.status.phase == "Post" and undoes(run)


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
