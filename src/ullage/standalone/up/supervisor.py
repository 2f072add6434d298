"""Starts a process (the API server, or one that runs beside it), starts it again when it dies, and stops it when told to.

A server that has served and dies is started again, on the same port, after a pause that doubles with each failure and is
forgotten once the server has been well for a while. A first start of the API server that fails is told at once: nothing but
an edit will help. The others are tried again: they may have met the API server at a bad moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ullage.clock import Clock
from ullage.errors import Terminal
from ullage.standalone.up.data_directory import SERVER_LOCK, DirectoryLocked, LockHolder
from ullage.standalone.up.output import Output
from ullage.standalone.up.process import NOT_STARTED, Exited, Process, Ready, last_lines

T = TypeVar("T")

DIRECTORY_HELD = 75  # the server's exit code when another one has its directory
KILLED = 130


class ServerFailed(Terminal):
    """The server did not come up. Carries the end of its log."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for what, in seconds."""

    start: float = 120.0  # a large store takes a while to read
    stop: float = 10.0
    handover: float = 5.0  # for the server of a killed `ullage up` to notice and leave
    first_pause: float = 0.5
    longest_pause: float = 30.0
    essential_pauses: tuple[float, float] = (0.1, 1.8)  # everything waits for it: it is back within 2 s
    well: float = 60.0  # after so long, a failure is a new one


@dataclass(frozen=True, slots=True)
class ProcessRole:
    """What a process is, and is called. The first start of an essential one must succeed."""

    name: str  # `webhook`: its log is `webhook.log`
    title: str
    short: str
    essential: bool = False


API_SERVER = ProcessRole("apiserver", title="Kubernetes API server", short="API server", essential=True)


class Supervisor:
    """One server, kept running. `stop()` may be called at any time: once to stop, again to kill."""

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],  # port to the server's command line
        directory: Path,
        *,
        port: int,
        output: Output,
        clock: Clock,
        timeouts: Timeouts | None = None,
        role: ProcessRole = API_SERVER,
    ) -> None:
        self._command = command
        self._directory = directory
        self._role = role
        self._log = directory / f"{role.name}.log"
        self._port = self._first_port = port
        self.tried = asyncio.Event()  # it was ready once, or has failed once
        self._output = output
        self._clock = clock
        self._timeouts = timeouts or Timeouts()
        self._stopping = asyncio.Event()
        self._killing = asyncio.Event()

    def pauses(self, count: int) -> list[float]:
        """Before the first restarts in a row."""
        first, longest = self._timeouts.first_pause, self._timeouts.longest_pause
        if self._role.essential:
            first, longest = (min(*both) for both in zip((first, longest), self._timeouts.essential_pauses, strict=True))
        return [min(first * 2**number, longest) for number in range(count)]

    def stop(self) -> None:
        (self._killing if self._stopping.is_set() else self._stopping).set()

    async def run(self, announce: Callable[[Ready], Awaitable[None]]) -> int:
        """Until stopped. `announce` is called when the server is ready for the first time."""
        served = False
        failures = 0
        while True:
            began = self._clock.monotonic()
            server, first = await self._start(began if self._role.essential and not served else None)
            if isinstance(first, Ready) and server is not None:
                self._port = first.port  # clients know it now: the next run must take the same
                if served:
                    self._output.done(f"{self._role.title} is back on port {first.port}")
                else:
                    await announce(first)
                served = True
                self.tried.set()
                first = await self._or_stopping(server.gone())
            elif not self._role.essential:
                self._port = self._first_port  # it may have been taken meanwhile, and nobody's file names it
            if first is None:
                return 0 if server is None else await self._end(server)
            if server is not None:
                await server.stop(self._timeouts.stop)  # already gone: lets go of what we held for it
            self.tried.set()
            failures = 1 if self._clock.monotonic() - began > self._timeouts.well else failures + 1
            pause = self.pauses(failures)[-1]
            self._output.warn(f"the {self._role.short} {first}; starting it again in {pause:g} s (log: {self._log})")
            await self._or_stopping(asyncio.sleep(pause))
            if self._stopping.is_set():
                return 0

    async def _start(self, first_since: float | None) -> tuple[Process | None, Ready | Exited | None]:
        """A started server and what became of it: ready, dead, or None when we are told to stop meanwhile."""
        while True:
            self._output.begin(f"starting the {self._role.title}")
            server, outcome = await self._try()
            if first_since is None or not isinstance(outcome, Exited):
                return server, outcome
            if server is not None:
                await server.stop(self._timeouts.stop)
            if outcome.code == NOT_STARTED:
                raise ServerFailed(f"the {self._role.short} {outcome}")
            if outcome.code != DIRECTORY_HELD:
                told = replace(outcome, reason="")  # the log has it
                raise ServerFailed("\n".join([f"the {self._role.short} {told}; its log ends:", *last_lines(self._log, 20)]))
            if self._clock.monotonic() - first_since > self._timeouts.handover:
                raise DirectoryLocked(self._directory, LockHolder.read(self._directory / SERVER_LOCK))
            await self._or_stopping(asyncio.sleep(self._timeouts.handover / 10))

    async def _try(self) -> tuple[Process | None, Ready | Exited | None]:
        command = self._command(self._port)
        try:
            server = await Process.start(command, log=self._log)
        except OSError as error:  # its program is not there any more, or there is no room for its log
            return None, Exited(NOT_STARTED, f"{error.filename or command[0]}: {error.strerror or error}")
        try:
            return server, await self._or_stopping(asyncio.wait_for(server.ready(), self._timeouts.start))
        except TimeoutError:
            return server, await server.kill()

    async def _end(self, server: Process) -> int:
        if self._role.essential:
            self._output.begin("stopping")
        stopping = asyncio.ensure_future(server.stop(self._timeouts.stop))
        killing = asyncio.ensure_future(self._killing.wait())
        await asyncio.wait({stopping, killing}, return_when=asyncio.FIRST_COMPLETED)
        killing.cancel()
        if not stopping.done():
            await server.kill()
            await stopping
            self._output.warn(f"{'' if self._role.essential else f'{self._role.title} '}killed; what was acknowledged is safe")
            return KILLED
        if stopping.result().code != 0:
            self._output.warn(f"the {self._role.short} {stopping.result()}; what was acknowledged is safe")
        if self._role.essential:
            self._output.done("stopped")
        return 0

    async def _or_stopping(self, work: Awaitable[T]) -> T | None:
        """The result of some work, or None when we are told to stop first."""
        task = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stopping.cancel()
            task.cancel()
