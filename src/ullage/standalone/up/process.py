"""One run of a process (the API server, or one that runs beside it), as its supervisor sees it: started, ready, gone.

The two sides share three things. The server writes one line of JSON to its ready descriptor once it serves. It holds the
reading end of a pipe whose writing end only we have: when we die, however we die, it reads the end of file and leaves. And
it logs to standard error, which goes to a file. It runs in a session of its own, so that a Ctrl-C reaches us alone and we
decide the order of things.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

LOG_LIMIT = 8 * 1024 * 1024
REASON_LIMIT = 300  # characters
COMMAND = "ullage: "  # how a command of ours begins the line that says why it failed
NOT_STARTED = 127


@dataclass(frozen=True, slots=True)
class Ready:
    """The server answers requests."""

    port: int
    pid: int


@dataclass(frozen=True, slots=True)
class Exited:
    """The server's process has ended. `str()` finishes the sentence "the API server ..."."""

    code: int
    reason: str = ""

    def __str__(self) -> str:
        if self.code == NOT_STARTED:
            return f"could not be started: {self.reason}"
        if self.code >= 0:
            return f"ended with exit code {self.code}" + (f": {self.reason}" if self.reason else "")
        try:
            return f"was killed by {signal.Signals(-self.code).name}"
        except ValueError:
            return f"was killed by signal {-self.code}"


class Process:
    """One run of the server. `start` it, await `ready`, await `gone`; `stop` it in any state."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        *,
        reader: asyncio.StreamReader,
        transport: asyncio.ReadTransport,
        lifeline: int,
        log: Path,
        since: int,
    ) -> None:
        self._log = log
        self._since = since  # where in the log this run begins
        self._process = process
        self._reader = reader
        self._transport = transport
        self._lifeline = lifeline

    @classmethod
    async def start(cls, command: Sequence[str], *, log: Path) -> Process:
        ready_read, ready_write = os.pipe()
        lifeline_read, lifeline_write = os.pipe()
        try:
            with open_log(log) as output:
                since = os.fstat(output.fileno()).st_size
                process = await asyncio.create_subprocess_exec(
                    *command,
                    *("--ready-fd", str(ready_write), "--parent-fd", str(lifeline_read)),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(ready_write, lifeline_read),
                    start_new_session=True,
                )
        except BaseException:
            os.close(ready_read)
            os.close(lifeline_write)
            raise
        finally:
            os.close(ready_write)  # our copies: the reader must see the end when the server's is closed
            os.close(lifeline_read)
        reader, transport = await _reader(ready_read)
        return cls(process, reader=reader, transport=transport, lifeline=lifeline_write, log=log, since=since)

    async def ready(self) -> Ready | Exited:
        """Waits until the server serves, or has died without."""
        line = await self._reader.readline()
        try:
            told = json.loads(line)
            return Ready(int(told["port"]), int(told["pid"]))
        except (ValueError, TypeError, KeyError):
            return await self.gone()

    async def gone(self) -> Exited:
        code = await self._process.wait()
        return Exited(code, reason_of(code, self._log, since=self._since))

    async def stop(self, grace: float) -> Exited:
        """Asks the server to leave, and makes it leave when it has not done so in time. Safe to call twice."""
        self._signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self.gone(), grace)
        except TimeoutError:
            return await self.kill()
        finally:
            self._let_go()

    async def kill(self) -> Exited:
        self._signal(signal.SIGKILL)
        try:
            return await self.gone()
        finally:
            self._let_go()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _let_go(self) -> None:
        self._transport.close()
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)


def open_log(path: Path) -> IO[bytes]:
    """The log, to append to. Once it is large it is kept as `<name>.1`, and a new one begins."""
    with suppress(FileNotFoundError):
        if path.stat().st_size > LOG_LIMIT:
            path.replace(path.with_name(f"{path.name}.1"))
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def last_lines(path: Path, count: int, *, since: int = 0) -> list[str]:
    """The end of a log, for a person who wants to know why."""
    try:
        with path.open("rb") as file:
            file.seek(max(since, path.stat().st_size - 64 * 1024))
            return file.read().decode(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []


def reason_of(code: int, log: Path, *, since: int) -> str:
    """Why a process failed, in its own words: what the command says of an error, or else the last line of this run."""
    if code <= 0:
        return ""
    lines = [line.strip() for line in last_lines(log, 200, since=since) if line.strip()]
    said = [line.removeprefix(COMMAND) for line in lines if line.startswith(COMMAND)] or lines or [""]
    return said[-1] if len(said[-1]) <= REASON_LIMIT else f"{said[-1][: REASON_LIMIT - 1]}…"


async def _reader(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    return reader, transport
