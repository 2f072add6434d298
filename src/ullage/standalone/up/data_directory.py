"""One data directory, one `ullage up`: claims a directory for as long as this process lives, or says who holds it.

The claim is a lock that the kernel drops with the process, however it ends. It is not the API server's own lock (the file
`lock`), so that nobody slips in while the server is being started again.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from ullage.clock import Clock
from ullage.errors import BadInput, Terminal
from ullage.files.trees import closing, remove_tree
from ullage.local_servers import LOCK
from ullage.times import timestamp

SERVER_LOCK = "lock"
EPHEMERAL = "ullage-ephemeral-"
SETTLED = timedelta(minutes=1)  # a temporary directory that is younger may still be in the making


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who has a directory, as far as its lock file tells."""

    pid: int | None
    since: str | None

    @classmethod
    def read(cls, lock: Path) -> LockHolder:
        try:
            content: Any = json.loads(lock.read_text())
            return cls(int(content["pid"]), str(content["started"]))
        except (OSError, ValueError, TypeError, KeyError):  # being written at this moment, or not by us
            return cls(None, None)

    def __str__(self) -> str:
        process = f"process {self.pid}" if self.pid else "another process"
        return f"{process}, since {self.since}" if self.since else process


class DirectoryLocked(Terminal):
    """Another process has the directory. Its message says who, and how to use what it serves."""

    def __init__(self, directory: Path, holder: LockHolder) -> None:
        super().__init__(
            f"{directory} is held by {holder}; use it with KUBECONFIG={directory / 'kubeconfig'}, or name another --data-dir"
        )
        self.holder = holder


@contextmanager
def lock(directory: Path, clock: Clock) -> Iterator[Path]:
    """Makes the directory where it is missing, and keeps every other `ullage up` out of it."""
    lock = _open_lock(directory)
    with os.fdopen(lock, "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DirectoryLocked(directory, LockHolder.read(directory / LOCK)) from None
        file.truncate()
        json.dump({"pid": os.getpid(), "started": timestamp(clock.now())}, file)
        file.flush()
        yield directory


@contextmanager
def lock_temporary(clock: Clock) -> Iterator[Path]:
    """A new directory that is removed at the end. Those that killed processes left behind are removed first."""
    base = Path(tempfile.gettempdir())
    for left in base.glob(f"{EPHEMERAL}*"):
        _reap(left, clock)
    directory = Path(tempfile.mkdtemp(prefix=EPHEMERAL))
    try:
        with lock(directory, clock):
            yield directory
    finally:
        _remove(directory)


def _open_lock(directory: Path) -> int:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = {entry.name for entry in directory.iterdir()} - {"lost+found"}
        if found and not found & {LOCK, SERVER_LOCK}:
            raise BadInput("--data-dir", directory, "holds files of something else; a new or an empty directory is allowed")
        return os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (FileExistsError, NotADirectoryError) as error:
        raise BadInput("--data-dir", directory, "a file, or below a file; a directory is allowed") from error
    except OSError as error:
        problem = f"cannot be used ({error.strerror}); a directory that you can write to is allowed"
        raise BadInput("--data-dir", directory, problem) from error


def _reap(directory: Path, clock: Clock) -> None:
    """Removes a temporary directory of ours whose owner is gone. Another user's cannot be opened, and stays."""
    with suppress(OSError), (directory / LOCK).open("r+") as file:
        age = clock.now().timestamp() - os.fstat(file.fileno()).st_mtime
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if age > SETTLED.total_seconds():
            _remove(directory)


def _remove(directory: Path) -> None:
    """As far as it can be. Its volumes hold what tenants wrote: directories of any depth, and links to anywhere."""
    with suppress(OSError), closing(os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as parent:
        remove_tree(parent, directory.name)
