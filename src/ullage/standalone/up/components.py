"""What runs beside the API server: made ready once it serves, started in order, stopped in the opposite order before it stops.

Which processes these are, and what they need first, is told by whoever composes them. If something does not come up, the API
server runs on, and it is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ullage.clock import Clock
from ullage.errors import UllageError
from ullage.standalone.up.output import Output
from ullage.standalone.up.process import Ready
from ullage.standalone.up.supervisor import ProcessRole, Supervisor, Timeouts


@dataclass(frozen=True, slots=True)
class Component:
    """A process that is kept running. It keeps the same contract with its supervisor as the API server (`process.py`). One
    that stands `apart` is a control plane of its own: all of these start at once, after the others, and stop at once, before
    them."""

    role: ProcessRole
    command: Callable[[Path, int], Sequence[str]]  # data directory and port (0: any) to a command line
    address: str  # `https://127.0.0.1:{port}`
    apart: bool = False


@dataclass(frozen=True, slots=True)
class System:
    """`prepare` runs once the API server serves, until it succeeds; what it says is shown. `maintain` runs from then on, with
    what warns a person. `check` raises BadInput for a data directory, or a place for one, that the components cannot use.
    `kubeconfigs` are those of the control planes that stand apart, by what a person calls them."""

    prepare: Callable[[Path], Awaitable[str]]
    maintain: Callable[[Callable[[str], None]], Awaitable[None]]
    components: tuple[Component, ...]
    check: Callable[[Path], None] = lambda directory: None
    kubeconfigs: Callable[[Path], Mapping[str, Path]] = lambda directory: {}


class ComponentGroup:
    def __init__(
        self, system: System, directory: Path, *, output: Output, clock: Clock, timeouts: Timeouts | None = None
    ) -> None:
        self._system = system
        self._directory = directory
        self._output = output
        self._clock = clock
        self._timeouts = timeouts or Timeouts()
        self._supervisors: list[tuple[Component, Supervisor, asyncio.Task[int]]] = []
        self._maintaining: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when each has come up, or has failed for the first time and will be tried again."""
        await self._prepare()
        self._maintaining = asyncio.ensure_future(self._maintain())
        for component in self._system.components:
            if not component.apart:
                await self._start(component)
        await asyncio.gather(*(self._start(component) for component in self._system.components if component.apart))

    async def stop(self) -> None:
        """Last started, first stopped: controllers give their lease back while there is still an API to give it to."""
        apart = [(supervisor, task) for component, supervisor, task in self._supervisors if component.apart]
        for supervisor, _ in apart:
            supervisor.stop()
        if apart:
            await asyncio.wait([task for _, task in apart])
        for component, supervisor, task in reversed(self._supervisors):
            if not component.apart:
                supervisor.stop()
                await asyncio.wait((task,))
        if self._maintaining is not None:
            self._maintaining.cancel()
            await asyncio.wait((self._maintaining,))

    def kill(self) -> None:
        """A person has asked twice."""
        for _, supervisor, _ in self._supervisors:
            supervisor.stop()
            supervisor.stop()

    async def _prepare(self) -> None:
        pause = self._timeouts.first_pause
        while True:
            self._output.begin("installing")
            try:
                told = await self._system.prepare(self._directory)
            except UllageError as error:
                self._output.warn(f"could not install: {error}; trying again in {pause:g} s")
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._timeouts.longest_pause)
            else:
                self._output.done(told)
                return

    async def _maintain(self) -> None:
        try:
            await self._system.maintain(self._output.warn)
        except Exception as error:
            self._output.warn(f"the processes' credentials are no longer renewed: {type(error).__name__}: {error}")

    async def _start(self, component: Component) -> None:
        began = self._clock.monotonic()

        async def announce(ready: Ready) -> None:
            address = component.address.format(port=ready.port)
            self._output.done(f"{component.role.title} on {address} ({self._clock.monotonic() - began:.1f} s)")

        supervisor = Supervisor(
            lambda port: component.command(self._directory, port),
            self._directory,
            port=0,
            output=self._output,
            clock=self._clock,
            timeouts=_patient(self._timeouts) if component.apart else self._timeouts,
            role=component.role,
        )
        task = asyncio.create_task(supervisor.run(announce), name=component.role.name)
        self._supervisors.append((component, supervisor, task))
        await supervisor.tried.wait()


def _patient(timeouts: Timeouts) -> Timeouts:
    """For one that starts and stops several others itself."""
    return replace(timeouts, start=timeouts.start * 5, stop=timeouts.stop * 5)
