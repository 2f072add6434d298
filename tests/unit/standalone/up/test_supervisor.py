"""The supervisor of the API server, with a stand-in for the server that can misbehave."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ullage.clock import FakeClock, SystemClock
from ullage.standalone.up.data_directory import DirectoryLocked, LockHolder
from ullage.standalone.up.process import Exited, Ready, last_lines, open_log, reason_of
from ullage.standalone.up.supervisor import KILLED, ProcessRole, ServerFailed, Supervisor, Timeouts

FAKE = Path(__file__).with_name("fake_server.py")
WEBHOOK = ProcessRole("webhook", "webhook", "webhook")
QUICK = Timeouts(start=20, stop=20, handover=0.2, first_pause=0.01, longest_pause=0.04)


class Recorder:
    """A output that remembers, and wakes whoever waits for a line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._changed = asyncio.Event()

    def say(self, text: str = "") -> None:
        self.lines.append(text)
        self._changed.set()

    begin = done = warn = say

    async def saw(self, text: str, times: int = 1) -> None:
        while sum(text in line for line in self.lines) < times:
            self._changed.clear()
            await self._changed.wait()


class Stage:
    """A supervisor over a stand-in, and what it has announced."""

    def __init__(self, directory: Path, behaviour: str, *, port: int = 0, timeouts: Timeouts = QUICK) -> None:
        self.output = Recorder()
        self.ready: asyncio.Queue[Ready] = asyncio.Queue()
        self.directory = directory
        self.supervisor = Supervisor(
            self._command(behaviour), directory, port=port, output=self.output, clock=SystemClock(), timeouts=timeouts
        )
        self.run = asyncio.ensure_future(self.supervisor.run(self.ready.put))

    def _command(self, behaviour: str) -> Callable[[int], Sequence[str]]:
        return lambda port: [sys.executable, str(FAKE), behaviour, "--data-dir", str(self.directory), "--port", str(port)]

    def pid(self) -> int:
        pid = LockHolder.read(self.directory / "lock").pid
        assert pid is not None
        return pid

    def starts(self) -> list[str]:
        return (self.directory / "starts").read_text().splitlines()


async def test_it_announces_the_server_once_it_serves_and_stops_it_when_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "good")
    ready = await stage.ready.get()
    assert ready.port == 12345
    stage.supervisor.stop()
    assert await stage.run == 0
    with pytest.raises(ProcessLookupError):
        os.kill(ready.pid, 0)
    assert stage.output.lines[-1] == "stopped"


async def test_a_server_that_dies_is_started_again_on_the_same_port_and_told_of(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "good")
    ready = await stage.ready.get()
    os.kill(ready.pid, signal.SIGKILL)
    await stage.output.saw("is back on port 12345")
    assert any("was killed by SIGKILL; starting it again in 0.01 s" in line for line in stage.output.lines), "and no reason"
    stage.supervisor.stop()
    assert await stage.run == 0
    assert stage.starts() == ["0 False", "12345 False"], "a free port at first, then the one that clients know"
    assert stage.ready.empty(), "announced once"


async def test_the_pause_before_a_restart_doubles_up_to_its_limit(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "good")
    await stage.ready.get()
    for count in range(1, 5):
        os.kill(stage.pid(), signal.SIGKILL)
        await stage.output.saw("is back", count)
    stage.supervisor.stop()
    await stage.run
    pauses = [line.split("again in ")[1].split(" s")[0] for line in stage.output.lines if "again in" in line]
    assert pauses == ["0.01", "0.02", "0.04", "0.04"]


async def test_a_server_that_never_served_is_not_started_again_and_its_log_is_shown(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "broken")
    with pytest.raises(ServerFailed) as failed:
        await stage.run
    assert str(failed.value) == "the API server ended with exit code 1; its log ends:\nthe disk is full"
    assert len(stage.starts()) == 1


async def test_a_directory_that_another_server_holds_is_given_up_after_a_while(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "held")
    with pytest.raises(DirectoryLocked, match="is held by process 4711, since 2026-01-01T00:00:00Z"):
        await stage.run
    assert len(stage.starts()) > 1, "tried again: the holder may have been on its way out"


async def test_a_server_that_is_on_its_way_out_is_waited_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "held-once", timeouts=Timeouts(handover=20))
    await stage.ready.get()
    stage.supervisor.stop()
    assert await stage.run == 0


async def test_a_server_that_ignores_the_request_to_stop_is_killed_in_time(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "deaf", timeouts=Timeouts(stop=0.1))
    await stage.ready.get()
    stage.supervisor.stop()
    assert await stage.run == 0
    assert any("was killed by SIGKILL; what was acknowledged is safe" in line for line in stage.output.lines)


async def test_a_second_request_to_stop_kills(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "deaf", timeouts=Timeouts(stop=60))
    await stage.ready.get()
    stage.supervisor.stop()
    await stage.output.saw("stopping")
    stage.supervisor.stop()
    assert await stage.run == KILLED


async def test_a_request_to_stop_is_heard_while_the_server_starts(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "mute")
    await stage.output.saw("starting")
    stage.supervisor.stop()
    assert await stage.run == 0


async def test_a_server_that_never_gets_ready_is_given_up(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "mute", timeouts=Timeouts(start=0.5))
    with pytest.raises(ServerFailed, match="was killed by SIGKILL"):
        await stage.run


async def test_a_request_to_stop_is_heard_in_the_pause_before_a_restart(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "good", timeouts=Timeouts(first_pause=600, longest_pause=600, essential_pauses=(600, 600)))
    ready = await stage.ready.get()
    os.kill(ready.pid, signal.SIGKILL)
    await stage.output.saw("again in 600 s")
    stage.supervisor.stop()
    assert await stage.run == 0


async def test_a_server_that_was_killed_often_is_back_within_two_seconds(tmp_path: Path) -> None:
    """Everything waits for the API server: what beside it may pause for half a minute must not cost it more than a moment."""
    clock = FakeClock()
    stage = Stage(tmp_path, "good", timeouts=Timeouts())
    assert stage.supervisor.pauses(8) == [0.1, 0.2, 0.4, 0.8, 1.6, 1.8, 1.8, 1.8]
    other = Supervisor(lambda port: [], tmp_path, port=0, output=stage.output, clock=clock, role=WEBHOOK)
    assert other.pauses(8) == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    await stage.ready.get()
    stage.supervisor.stop()
    await stage.run


@pytest.mark.parametrize(
    ("log", "code", "reason"),
    [
        pytest.param("", 1, "", id="nothing was said"),
        pytest.param("ullage: --socket x: too long\n", 2, "--socket x: too long", id="the line of a command that failed"),
        pytest.param("Traceback\n  File\nKeyError: 'a'\n", 1, "KeyError: 'a'", id="the end of a traceback"),
        pytest.param("ullage: it is so\nlater noise\n\n", 1, "it is so", id="the line of the command before other lines"),
        pytest.param("at work\n", -9, "", id="one that was killed had no time to give a reason"),
        pytest.param("at work\n", 0, "", id="one that ended well has none"),
        pytest.param("x" * 2000 + "\n", 1, "x" * 299 + "…", id="a long one is cut"),
    ],
)
def test_the_reason_of_an_end_is_what_its_own_log_says_last(tmp_path: Path, log: str, code: int, reason: str) -> None:
    path = tmp_path / "webhook.log"
    path.write_text("ullage: an older run's reason\n")
    before = path.stat().st_size
    with path.open("a") as file:
        file.write(log)
    assert reason_of(code, path, since=before) == reason


async def test_a_program_that_was_removed_is_told_and_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, program = Recorder(), tmp_path / "python"
    program.symlink_to(sys.executable)
    behaviour = [str(program), str(FAKE), "good", "--data-dir", str(tmp_path), "--port", "0"]
    supervisor = Supervisor(
        lambda port: behaviour, tmp_path, port=0, output=output, clock=SystemClock(), timeouts=QUICK, role=WEBHOOK
    )
    program.unlink()
    ready: asyncio.Queue[Ready] = asyncio.Queue()
    running = asyncio.ensure_future(supervisor.run(ready.put))
    await output.saw(f"the webhook could not be started: {program}: No such file or directory; starting it again in 0.01 s")
    program.symlink_to(sys.executable)
    await ready.get()
    supervisor.stop()
    assert await running == 0


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param(0, "ended with exit code 0", id="an exit"),
        pytest.param(-11, "was killed by SIGSEGV", id="a signal"),
        pytest.param(-63, "was killed by signal 63", id="a signal without a name"),
    ],
)
def test_how_an_end_is_worded(code: int, text: str) -> None:
    assert str(Exited(code)) == text


def test_a_large_log_is_put_aside_and_a_small_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ullage.standalone.up.process.LOG_LIMIT", 10)
    path = tmp_path / "apiserver.log"
    for text in (b"short\n", b"and longer\n", b"new\n"):
        with open_log(path) as log:
            log.write(text)
    assert last_lines(path, 20) == ["new"]
    assert last_lines(tmp_path / "apiserver.log.1", 1) == ["and longer"]
