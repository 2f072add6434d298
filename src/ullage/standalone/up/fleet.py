"""What runs beside the API server: made ready once it serves, started in order, stopped in the opposite order before it stops.

Which processes these are, and what they need first, is told by whoever composes them. If something does not come up, the API
server runs on, and it is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ullage.clock import Clock
from ullage.errors import UllageError
from ullage.standalone.up.narration import Narrator
from ullage.standalone.up.server import Ready
from ullage.standalone.up.supervisor import Patience, Role, Supervisor


@dataclass(frozen=True, slots=True)
class Companion:
    """A process that is kept running. It keeps the same contract with its keeper as the API server (`server.py`)."""

    role: Role
    command: Callable[[Path, int], Sequence[str]]  # data directory and port (0: any) to a command line
    address: str  # `https://127.0.0.1:{port}`


@dataclass(frozen=True, slots=True)
class System:
    """`prepare` runs once the API server serves, until it succeeds; what it says is shown. `maintain` runs from then on."""

    prepare: Callable[[Path], Awaitable[str]]
    maintain: Callable[[], Awaitable[None]]
    companions: tuple[Companion, ...]


class Fleet:
    def __init__(
        self, system: System, directory: Path, *, narrator: Narrator, clock: Clock, patience: Patience | None = None
    ) -> None:
        self._system = system
        self._directory = directory
        self._narrator = narrator
        self._clock = clock
        self._patience = patience or Patience()
        self._keepers: list[tuple[Supervisor, asyncio.Task[int]]] = []
        self._maintaining: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when each has come up, or has failed for the first time and will be tried again."""
        await self._prepare()
        self._maintaining = asyncio.ensure_future(self._maintain())
        for companion in self._system.companions:
            await self._start(companion)

    async def stop(self) -> None:
        """Last started, first stopped: controllers give their lease back while there is still an API to give it to."""
        for keeper, task in reversed(self._keepers):
            keeper.stop()
            await asyncio.wait((task,))
        if self._maintaining is not None:
            self._maintaining.cancel()
            await asyncio.wait((self._maintaining,))

    def hurry(self) -> None:
        """A person has asked twice."""
        for keeper, _ in self._keepers:
            keeper.stop()
            keeper.stop()

    async def _prepare(self) -> None:
        pause = self._patience.first_pause
        while True:
            self._narrator.begin("installing")
            try:
                told = await self._system.prepare(self._directory)
            except UllageError as error:
                self._narrator.warn(f"could not install: {error}; trying again in {pause:g} s")
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._patience.longest_pause)
            else:
                self._narrator.done(told)
                return

    async def _maintain(self) -> None:
        try:
            await self._system.maintain()
        except Exception as error:
            self._narrator.warn(f"the processes' credentials are no longer renewed: {type(error).__name__}: {error}")

    async def _start(self, companion: Companion) -> None:
        began = self._clock.monotonic()

        async def announce(ready: Ready) -> None:
            address = companion.address.format(port=ready.port)
            self._narrator.done(f"{companion.role.title} on {address} ({self._clock.monotonic() - began:.1f} s)")

        keeper = Supervisor(
            lambda port: companion.command(self._directory, port),
            self._directory,
            port=0,
            narrator=self._narrator,
            clock=self._clock,
            patience=self._patience,
            role=companion.role,
        )
        task = asyncio.create_task(keeper.run(announce), name=companion.role.name)
        self._keepers.append((keeper, task))
        await keeper.tried.wait()
