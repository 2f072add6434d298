"""What a container asks for, as far as the world can do it without running anything.

Understood are `cp`, `rsync`, `sleep`, `echo` and `true`, alone or in `sh -c` joined by `&&` or `;`. The words are only ever
read: no shell sees them, and paths count only below the claims that the container mounts.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.errors import Terminal
from ullage.kube.builtin.core import Container, VolumeMount

ABILITIES: Final = "no containers are run here: a job can do cp -a, cp -r, rsync -a, sleep, echo and true"
SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
_EXPANDED: Final = frozenset("$`*?[~{\\")  # what a shell would turn into something else
_OPERATORS: Final = frozenset({"&&", ";"})
_CP: Final[Mapping[str, str]] = {
    **{letter: letter for letter in "arRpdfv"},
    "archive": "a",
    "recursive": "r",
    "force": "f",
    "verbose": "v",
}
_RSYNC: Final[Mapping[str, str]] = {
    **{letter: letter for letter in "arlptgoDvhHzSW"},
    "archive": "a",
    "recursive": "r",
    "verbose": "v",
    "times": "t",
    "perms": "p",
    "links": "l",
}


class CannotRun(Terminal):
    """The command is none that the world can do; its message says which part, and what it can."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; {ABILITIES}")


@dataclass(frozen=True, slots=True)
class MountedPath:
    """A path in a container: below the root of a volume of the pod, by names that lead downwards only."""

    volume: str
    parts: tuple[str, ...]
    shown: str

    @property
    def name(self) -> str:
        return self.parts[-1] if self.parts else posixpath.basename(self.shown.rstrip("/")) or "root"


@dataclass(frozen=True, slots=True)
class CopySource:
    place: MountedPath
    contents: bool  # `SRC/.`: what is in it, and not itself


@dataclass(frozen=True, slots=True)
class Copy:
    """Into `target`; where that is a directory already, or must be one, a source keeps its own name in it."""

    sources: tuple[CopySource, ...]
    target: MountedPath
    inside: bool  # the target is a directory, made if it is not there
    recursive: bool
    keep: bool  # modes, owners and times too


@dataclass(frozen=True, slots=True)
class Sleep:
    seconds: float


@dataclass(frozen=True, slots=True)
class Nothing:
    """`true`, `echo`."""


Step = Copy | Sleep | Nothing


def parse_command(container: Container) -> tuple[Step, ...]:
    """The steps of a container's command, in order. Raises CannotRun."""
    words = (*container.command, *container.args)
    if not container.command:
        raise CannotRun("the container names no command, and its image is not looked at")
    mounts = Mounts(container.volume_mounts)
    program = posixpath.basename(words[0])
    if program in SHELLS:
        return tuple(_step(each, mounts) for each in _script(words[1:]))
    return (_step(words, mounts),)


def _script(words: Sequence[str]) -> list[Sequence[str]]:
    """The commands of `sh -c TEXT`, each as words."""
    flags = [word for word in words if word.startswith("-")]
    if len(words) != 2 or not flags or words[0] not in ("-c", "-ec", "-ce"):
        raise CannotRun(f"sh {shlex.join(words)}: only sh -c with one text is read")
    lexer = shlex.shlex(words[1].replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        found = list(lexer)
    except ValueError as error:
        raise CannotRun(f"{words[1]!r}: {error}") from error
    commands: list[list[str]] = [[]]
    for word in found:
        if word in _OPERATORS:
            commands.append([])
        elif set(word) <= set("();<>|&"):
            raise CannotRun(f"{word!r} in {words[1]!r} needs a shell")
        elif special := sorted(set(word) & _EXPANDED):
            raise CannotRun(f"{special[0]!r} in {word!r} needs a shell")
        else:
            commands[-1].append(word)
    return [command for command in commands if command] or [["true"]]


def _step(words: Sequence[str], mounts: Mounts) -> Step:
    program = posixpath.basename(words[0])
    known = _PROGRAMS.get(program)
    if known is None:
        raise CannotRun(f"{program}: not understood")
    return known(words[1:], mounts)


def _nothing(words: Sequence[str], mounts: Mounts) -> Step:
    return Nothing()


def _sleep(words: Sequence[str], mounts: Mounts) -> Step:
    units = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    total = 0.0
    for word in words:
        number, unit = word.rstrip("smhd"), word[len(word.rstrip("smhd")) :]
        if word in ("inf", "infinity"):
            total = float("inf")
        elif number.replace(".", "", 1).isdecimal() and number.isascii() and unit in units:
            total += float(number) * units[unit]
        else:
            raise CannotRun(f"sleep {word}: a number of seconds is needed")
    if not words:
        raise CannotRun("sleep: a number of seconds is needed")
    return Sleep(total)


def _cp(words: Sequence[str], mounts: Mounts) -> Step:
    flags, paths = _options("cp", words, _CP)
    *sources, target = _at_least_two("cp", paths)
    found = tuple(CopySource(mounts.place(path), contents=posixpath.basename(path) == ".") for path in sources)
    inside = len(found) > 1 or target.endswith("/") or any(one.contents for one in found)
    return Copy(found, mounts.writable(target), inside, recursive=bool(flags & set("arR")), keep=bool(flags & set("ap")))


def _rsync(words: Sequence[str], mounts: Mounts) -> Step:
    flags, paths = _options("rsync", words, _RSYNC)
    *sources, target = _at_least_two("rsync", paths)
    found = tuple(CopySource(mounts.place(path), contents=path.endswith(("/", "/."))) for path in sources)
    inside = target.endswith("/") or len(found) > 1 or bool(flags & set("ar"))
    return Copy(found, mounts.writable(target), inside, recursive=bool(flags & set("ar")), keep=bool(flags & set("at")))


def _options(program: str, words: Sequence[str], known: Mapping[str, str]) -> tuple[set[str], list[str]]:
    flags: set[str] = set()
    paths: list[str] = []
    for index, word in enumerate(words):
        if word == "--":
            paths += words[index + 1 :]
            break
        if not word.startswith("-") or word == "-":
            paths.append(word)
            continue
        given = [word[2:]] if word.startswith("--") else list(word[1:])
        if unknown := [flag for flag in given if flag not in known]:
            raise CannotRun(f"{program} {word}: {unknown[0]} is not understood")
        flags |= {known[flag] for flag in given}
    return flags, paths


def _at_least_two(program: str, paths: Sequence[str]) -> Sequence[str]:
    if len(paths) < 2:
        raise CannotRun(f"{program}: a source and a target are needed")
    return paths


_PROGRAMS: Final[Mapping[str, Callable[[Sequence[str], Mounts], Step]]] = {
    "cp": _cp,
    "rsync": _rsync,
    "sleep": _sleep,
    "echo": _nothing,
    "true": _nothing,
    ":": _nothing,
    "set": _nothing,  # `set -e; cp …`: each step must succeed here anyway
    "sync": _nothing,
}


class Mounts:
    """The volumes that a container sees, by path."""

    def __init__(self, mounts: Sequence[VolumeMount]) -> None:
        self._mounts = sorted(mounts, key=lambda mount: len(posixpath.normpath(mount.mount_path)), reverse=True)

    def place(self, path: str) -> MountedPath:
        return self._find(path)[1]

    def writable(self, path: str) -> MountedPath:
        mount, place = self._find(path)
        if mount.read_only:
            raise CannotRun(f"{path}: mounted read-only")
        return place

    def _find(self, path: str) -> tuple[VolumeMount, MountedPath]:
        if "\0" in path or ".." in path.split("/"):
            raise CannotRun(f"{path!r}: a path that leads downwards is needed")
        parts = _parts(path)
        for mount in self._mounts:
            above = _parts(mount.mount_path)
            if path.startswith("/") and parts[: len(above)] == above:
                return mount, MountedPath(mount.name, (*_below(mount), *parts[len(above) :]), path)
        raise CannotRun(f"{path}: not below a volume that the container mounts")


def _below(mount: VolumeMount) -> tuple[str, ...]:
    if mount.sub_path_expr or ".." in mount.sub_path.split("/") or mount.sub_path.startswith("/"):
        raise CannotRun(f"volumeMounts {mount.name}: only a plain subPath is understood")
    return _parts(mount.sub_path)


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))
