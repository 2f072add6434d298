"""What runs beside the API server, with stand-ins for the processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.unit.standalone.up.test_supervisor import FAKE, Recorder
from ullage.clock import SystemClock
from ullage.errors import Retryable
from ullage.standalone.up.components import Component, ComponentGroup, System
from ullage.standalone.up.data_directory import LockHolder
from ullage.standalone.up.supervisor import ProcessRole, Timeouts

QUICK = Timeouts(start=20, stop=20, first_pause=0.01, longest_pause=0.04)


class Stage:
    """A components of stand-ins, by name and behaviour, and what was done for it."""

    def __init__(
        self,
        directory: Path,
        *,
        timeouts: Timeouts = QUICK,
        failures: int = 0,
        apart: Sequence[str] = (),
        **behaviours: str,
    ) -> None:
        self.directory = directory
        self.output = Recorder()
        self.prepared: list[Path] = []
        self.maintained = asyncio.Event()
        self._failures = failures
        components = tuple(
            Component(
                ProcessRole(name, name, name),
                self._command(name, behaviour),
                f"http://{name}:{{port}}",
                apart=name in apart,
            )
            for name, behaviour in behaviours.items()
        )
        for name in behaviours:
            (directory / name).mkdir()
        system = System(self._prepare, self._maintain, components)
        self.components = ComponentGroup(system, directory, output=self.output, clock=SystemClock(), timeouts=timeouts)

    async def _prepare(self, directory: Path) -> str:
        self.prepared.append(directory)
        if len(self.prepared) <= self._failures:
            raise Retryable("not yet")
        return "prepared"

    async def _maintain(self, warn: Callable[[str], None]) -> None:
        self.maintained.set()
        await asyncio.Event().wait()

    def _command(self, name: str, behaviour: str) -> Callable[[Path, int], Sequence[str]]:
        return lambda directory, port: [
            sys.executable, str(FAKE), behaviour, "--data-dir", str(directory / name), "--port", str(port)
        ]  # fmt: skip

    def pid(self, name: str) -> int:
        return LockHolder.read(self.directory / name / "lock").pid or 0

    def runs(self, name: str) -> bool:
        return os.path.exists(f"/proc/{self.pid(name)}")

    def told(self) -> list[str]:
        return [line.split(" (")[0] for line in self.output.lines]


async def test_what_is_needed_is_prepared_first_and_each_is_up_before_the_next_begins(tmp_path: Path) -> None:
    stage = Stage(tmp_path, webhook="good", controller="good")
    await stage.components.start()
    assert stage.told() == [
        "installing",
        "prepared",
        "starting the webhook",
        "webhook on http://webhook:12345",
        "starting the controller",
        "controller on http://controller:12345",
    ]
    assert stage.prepared == [tmp_path]
    assert stage.maintained.is_set()
    await stage.components.stop()
    assert not any(stage.runs(name) for name in ("webhook", "controller"))
    assert (tmp_path / "controller.log").exists()


async def test_a_preparation_that_fails_is_told_and_tried_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, failures=2, webhook="good")
    await stage.components.start()
    assert [line for line in stage.told() if "could not" in line] == [
        "could not install: not yet; trying again in 0.01 s",
        "could not install: not yet; trying again in 0.02 s",
    ]
    await stage.components.stop()


async def test_one_that_does_not_come_up_keeps_the_others_waiting_for_one_try_only(tmp_path: Path) -> None:
    stage = Stage(tmp_path, webhook="broken", controller="good")
    await stage.components.start()
    told = "the webhook ended with exit code 1: the disk is full; starting it again in 0.01 s"
    assert any(told in line for line in stage.told()), "and why"
    assert "controller on http://controller:12345" in stage.told()
    await stage.output.saw("starting the webhook", 3)
    await stage.components.stop()


async def test_one_that_dies_is_started_again_where_it_was(tmp_path: Path) -> None:
    stage = Stage(tmp_path, webhook="good")
    await stage.components.start()
    os.kill(stage.pid("webhook"), signal.SIGKILL)
    await stage.output.saw("webhook is back on port 12345")
    await stage.components.stop()


async def test_to_stop_twice_kills_those_that_do_not_listen(tmp_path: Path) -> None:
    stage = Stage(tmp_path, webhook="deaf", controller="deaf", timeouts=Timeouts(stop=600))
    await stage.components.start()
    stopping = asyncio.create_task(stage.components.stop())
    await asyncio.sleep(0)
    stage.components.kill()
    await stopping
    assert not any(stage.runs(name) for name in ("webhook", "controller"))


async def test_those_that_stand_apart_start_after_the_others_all_at_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, apart=("one", "two"), one="good", two="good", controller="good")
    await stage.components.start()
    told = stage.told()
    assert told.index("controller on http://controller:12345") < told.index("starting the one")
    assert told.index("starting the two") < told.index("one on http://one:12345"), "neither waits for the other"
    await stage.components.stop()
    assert not any(stage.runs(name) for name in ("one", "two", "controller"))


async def test_those_that_stand_apart_are_asked_to_stop_together_and_before_the_others(tmp_path: Path) -> None:
    stage = Stage(tmp_path, apart=("one", "two"), one="deaf", two="deaf", controller="good", timeouts=Timeouts(stop=600))
    await stage.components.start()
    stopping = asyncio.create_task(stage.components.stop())
    await asyncio.sleep(0)
    assert stage.runs("controller"), "they may need it while they end"
    stage.components.kill()
    await stopping
    assert not any(stage.runs(name) for name in ("one", "two", "controller"))
