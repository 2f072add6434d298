"""Performs the steps of a command in a container that is not run: on the directories of the volumes that it mounts.

`fsfreeze` freezes nothing: that a volume is frozen is noted beside the volumes, where tests and people find it, and until it is
thawed no command here writes to it. Whoever writes to the directory by other ways is not held up: the world has no file systems
of its own.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ullage.errors import Terminal
from ullage.kube.builtin.core import Container
from ullage.standalone.world.controllers.pod.commands import CannotRun, MountedPath, Mounts
from ullage.standalone.world.kubelet import files
from ullage.standalone.world.kubelet.scripts import MISUSED, NOT_FOUND, CannotPlay, ScriptStep, parse_script

LONGEST_SLEEP: Final = 3600.0
MOST_OUTPUT: Final = 2 * 1024 * 1024  # bytes that one command prints, or keeps for a file: it is all in memory


@dataclass(frozen=True, slots=True)
class VolumePlace:
    """Where a volume of a pod is."""

    name: str  # of the PersistentVolume
    root: Path | str  # its directory here, or why there is none


Places = Callable[[str], VolumePlace]  # from the name of a volume in the pod


@dataclass(slots=True)
class Result:
    exit_code: int = 0
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)

    def print(self, data: bytes) -> None:
        if len(self.stdout) + len(data) > MOST_OUTPUT:
            raise Terminal(f"more than {MOST_OUTPUT} bytes are printed")
        self.stdout += data

    def fail(self, text: str, code: int = 1) -> int:
        self.stderr += f"{text}\n".encode("utf-8", "replace")
        return code


class Freezes:
    """Which volumes are frozen: a note for each, in a directory that is the world's own."""

    def __init__(self, notes: Path) -> None:
        self._notes = notes

    def path(self, volume: str) -> Path:
        return self._notes / f"frozen-{volume}"

    def is_frozen(self, volume: str) -> bool:
        return self.path(volume).exists()

    def freeze(self, volume: str) -> bool:
        """False: it is frozen already."""
        try:
            os.close(os.open(self.path(volume), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        return True

    def thaw(self, volume: str) -> bool:
        """False: it is not frozen."""
        try:
            self.path(volume).unlink()
        except FileNotFoundError:
            return False
        return True


class Shell:
    """One command in one container. `stdin` gives all that came, once it is closed."""

    def __init__(self, container: Container, places: Places, freezes: Freezes, stdin: Callable[[], Awaitable[bytes]]) -> None:
        self._mounts = Mounts(container.volume_mounts)
        self._places = places
        self._freezes = freezes
        self._stdin = stdin

    async def run(self, command: Sequence[str]) -> Result:
        result = Result()
        try:
            for step in parse_script(command):
                if step.only_after_success and result.exit_code:
                    continue
                result.exit_code = await self._step(step, result)
        except CannotPlay as error:
            result.exit_code = result.fail(str(error), error.exit_code)
        return result

    async def _step(self, step: ScriptStep, result: Result) -> int:
        program = posixpath.basename(step.words[0])
        known = _PROGRAMS.get(program)
        if known is None:
            raise CannotPlay(f"{program[:100]}: not found", NOT_FOUND)
        own = Result(stderr=result.stderr) if step.into else result
        try:
            code = await known(self, step.words[1:], own)
            if step.into:
                await self._write(step.into, bytes(own.stdout), append=step.append)
        except (CannotRun, Terminal) as error:
            return result.fail(f"{program}: {error}")
        except OSError as error:
            return result.fail(f"{program}: {error.strerror or error}")
        return code

    # --- programs ---

    async def _true(self, words: Sequence[str], result: Result) -> int:
        return 0

    async def _false(self, words: Sequence[str], result: Result) -> int:
        return 1

    async def _echo(self, words: Sequence[str], result: Result) -> int:
        result.print(f"{' '.join(words)}\n".encode("utf-8", "replace"))
        return 0

    async def _sleep(self, words: Sequence[str], result: Result) -> int:
        try:
            seconds = sum(float(word) for word in words)
        except ValueError:
            return result.fail(f"sleep: invalid time interval {' '.join(words)[:100]!r}")
        if not words or not 0 <= seconds <= LONGEST_SLEEP:
            return result.fail(f"sleep: a number of seconds up to {LONGEST_SLEEP:.0f} is needed")
        await asyncio.sleep(seconds)
        return 0

    async def _cat(self, words: Sequence[str], result: Result) -> int:
        if not words:
            result.print(await self._stdin())
        for word in words:
            place = self._mounts.place(word)
            result.print(await asyncio.to_thread(files.read, self._root(place), place.parts))
        return 0

    async def _touch(self, words: Sequence[str], result: Result) -> int:
        for word in words:
            place = self._writable(word)
            await asyncio.to_thread(files.touch, self._root(place), place.parts)
        return 0 if words else result.fail("touch: missing file operand")

    async def _tee(self, words: Sequence[str], result: Result) -> int:
        append = bool(words) and words[0] in ("-a", "--append")
        data = await self._stdin()
        for word in words[append:]:
            await self._write(word, data, append=append)
        result.print(data)
        return 0

    async def _fsfreeze(self, words: Sequence[str], result: Result) -> int:
        verbs = {"-f": True, "--freeze": True, "-u": False, "--unfreeze": False}
        if len(words) != 2 or words[0] not in verbs:
            return result.fail("fsfreeze: --freeze or --unfreeze and the path of a mount are needed", MISUSED)
        place = self._mounts.place(words[1])
        if place.parts:
            return result.fail(f"fsfreeze: {words[1]}: not a mount point")
        volume = self._places(place.volume).name
        if verbs[words[0]]:
            done = await asyncio.to_thread(self._freezes.freeze, volume)
            return 0 if done else result.fail(f"fsfreeze: {words[1]}: freeze failed: Device or resource busy")
        done = await asyncio.to_thread(self._freezes.thaw, volume)
        return 0 if done else result.fail(f"fsfreeze: {words[1]}: unfreeze failed: Invalid argument")

    # --- volumes ---

    async def _write(self, path: str, data: bytes, *, append: bool) -> None:
        place = self._writable(path)
        await asyncio.to_thread(files.write, self._root(place), place.parts, data, append=append)

    def _writable(self, path: str) -> MountedPath:
        place = self._mounts.writable(path)
        if self._freezes.is_frozen(self._places(place.volume).name):
            raise Terminal(f"{path}: the file system is frozen, and writing would wait until it is thawed")
        return place

    def _root(self, place: MountedPath) -> Path:
        root = self._places(place.volume).root
        if isinstance(root, str):
            raise Terminal(f"{place.shown}: {root}")
        return root


_PROGRAMS: Final[Mapping[str, Callable[[Shell, Sequence[str], Result], Awaitable[int]]]] = {
    "true": Shell._true,
    ":": Shell._true,
    "sync": Shell._true,
    "set": Shell._true,
    "false": Shell._false,
    "echo": Shell._echo,
    "sleep": Shell._sleep,
    "cat": Shell._cat,
    "touch": Shell._touch,
    "tee": Shell._tee,
    "fsfreeze": Shell._fsfreeze,
}
