"""The processes that `test_kill` kills: `python -m tests.unit.snapshots.backends.hostpath.killed WHAT DIRECTORY`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from ullage.clock import SystemClock
from ullage.snapshots.backends.base import Creation, Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath import HostPathSettings, file_copy
from ullage.snapshots.backends.hostpath.restores import Restores
from ullage.snapshots.backends.hostpath.snapshots import Snapshots
from ullage.snapshots.backends.hostpath.threads import Stop

SIZE = 1 << 30
FILES = 8
# Every call that leaves something else on the disk, with `open` where it makes a file. Copying data is between them.
STEPS = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.utime", "fcntl.flock"})


def settings(top: Path) -> HostPathSettings:
    return HostPathSettings(
        volumes=(top / "volumes",), snapshots=top / "snapshots", restored=top / "volumes", node="here", single_node=True
    )


def cycle(top: Path) -> None:
    """Everything that can be done with one snapshot and one volume made from it."""
    snapshots = Snapshots(settings(top), clock=SystemClock())
    restores = Restores(settings(top), snapshots, clock=SystemClock())
    shot = snapshots.create(Creation(name="s", volume=VolumeHandle(handle=str(top / "volumes" / "db"))), Stop())
    made = restores.restore(Restoration(name="pvc", snapshot=shot.handle, size=SIZE), Stop())
    restores.discard(made.handle, Stop())
    snapshots.delete(shot.handle, Stop())


def filled(top: Path) -> None:
    """A volume with some files."""
    (top / "snapshots").mkdir()
    for number in range(FILES):
        file = top / "volumes" / "db" / f"d{number % 2}" / f"f{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(5000))


def half(top: Path) -> None:
    """Is killed in the middle of a copy; names the files whose data was copied by then."""
    copy_data = file_copy.copy_data
    left = FILES // 2

    def counted(source: int, target: int, *, size: int, stop: Stop) -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        copy_data(source, target, size=size, stop=stop)
        print(Path(f"/proc/self/fd/{source}").readlink().name, flush=True)

    file_copy.copy_data = counted
    cycle(top)


def repeat(top: Path) -> None:
    """Until somebody kills it."""
    print("go", flush=True)
    while True:
        cycle(top)


def cut(top: Path) -> None:
    """For every number on standard input: a cycle in a process that kills itself before that step, if it comes so far."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _kill_before(int(line))
            cycle(top)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else f"ended {os.waitstatus_to_exitcode(status)}", flush=True)


def _kill_before(step: int) -> None:
    left = step

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in STEPS or (event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(hook)


def create(top: Path) -> None:
    """Five snapshots, and what is said of each."""
    snapshots = Snapshots(settings(top), clock=SystemClock())
    for number in range(5):
        print(snapshots.create(Creation(name=f"s-{number}", volume=VolumeHandle(handle=str(top / "volumes" / "db"))), Stop()))


if __name__ == "__main__":
    {"repeat": repeat, "cut": cut, "create": create, "half": half}[sys.argv[1]](Path(sys.argv[2]))
