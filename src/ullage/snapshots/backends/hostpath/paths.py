"""Which directories a volume may be, and how one is opened so that nothing outside can be reached through it.

A PersistentVolume's path is text that somebody wrote, and what lies below it belongs to a tenant. So a path is compared with
the configured roots first, and then opened one part at a time, each in the directory before it and never through a symbolic
link: whatever is swapped meanwhile, the way cannot leave the root.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.errors import BadInput, Impossible, NotNow
from ullage.files.trees import closing, descend
from ullage.snapshots.backends.hostpath.errors import printable

_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPathSettings:
    """Where things lie on this machine. All of these directories have to be there."""

    volumes: tuple[Path, ...]  # volumes lie below these
    snapshots: Path  # what is in here is ours alone
    restored: Path  # new volumes are made in here; one of `volumes`, or below one, if they are to have snapshots too
    node: str  # the name of this node
    single_node: bool = False  # volumes without node affinity are on this node too

    def __post_init__(self) -> None:
        for where, path in (*(("volume root", root) for root in self.volumes), ("snapshot root", self.snapshots)):
            _check_root(where, path)
        _check_root("root of restored volumes", self.restored)
        if not self.node:
            raise BadInput("node", repr(self.node), "the name of this node is needed: its volumes are the ones served")
        for root in (*self.volumes, self.restored):
            if root.is_relative_to(self.snapshots) or self.snapshots.is_relative_to(root):
                raise BadInput(
                    "snapshot root", self.snapshots, f"overlaps with {root}; a directory apart from volumes is allowed"
                )


def _check_root(where: str, path: Path) -> None:
    if not path.is_absolute() or ".." in path.parts or path == Path("/"):
        raise BadInput(where, path, "an absolute path without '..', and not /, is allowed")


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """A name that may become the name of a directory."""
    if not is_name(name):
        raise Impossible(f"name {printable(name)!r}: 1 to 128 letters, digits and dashes are allowed")
    return name


def parts_of(handle: str) -> tuple[str, ...]:
    """An absolute path in parts; repeated slashes mean nothing. Raises Impossible for one that is not plain."""
    if not handle.startswith("/") or "\0" in handle:
        raise Impossible(f"path {printable(handle)!r}: an absolute path is allowed")
    parts = tuple(part for part in handle.split("/") if part not in ("", "."))
    if ".." in parts:
        raise Impossible(f"path {printable(handle)}: '..' is not allowed")
    return parts


@dataclass(frozen=True, slots=True)
class VolumePath:
    """A directory below a root."""

    root: Path
    parts: tuple[str, ...]

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)


def volume_path(handle: str, roots: Sequence[Path]) -> VolumePath:
    """Where a volume lies. Raises Impossible where that is no place for one."""
    parts = parts_of(handle)
    for root in roots:
        start = root.parts[1:]
        if parts[: len(start)] != start:
            continue
        below = parts[len(start) :]
        if not below:
            raise Impossible(f"path {printable(handle)}: is a root itself; a directory below it is allowed")
        if below[0].startswith("."):
            raise Impossible(f"path {printable(handle)}: names with a dot in front are kept for other uses in {root}")
        return VolumePath(root, below)
    allowed = " or ".join(str(root) for root in roots) or "no directory: there is no volume root in the settings"
    raise Impossible(f"path {printable(handle)}: below {allowed} is allowed")


@contextmanager
def opened(volume: VolumePath) -> Iterator[int]:
    """A descriptor of the directory."""
    try:
        root = os.open(volume.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # the settings may name a symbolic link
    except OSError as error:
        raise NotNow(f"{volume.root}: {error.strerror}; it has to be there, or its file system mounted") from error
    with closing(root), closing(_below(root, volume)) as directory:
        yield directory


def _below(root: int, volume: VolumePath) -> int:
    try:
        return descend(root, volume.parts)
    except PermissionError as error:
        raise Impossible(f"path {printable(volume.path)}: {error.strerror}") from error
    except OSError as error:
        raise Impossible(f"path {printable(volume.path)}: {_obstacle(volume)}") from error


def _obstacle(volume: VolumePath) -> str:
    """What is in the way, for the message only."""
    path = volume.root
    for part in volume.parts:
        path = path / part
        try:
            mode = path.lstat().st_mode
        except OSError as error:
            return f"{printable(path)}: {error.strerror}"
        if stat.S_ISLNK(mode):
            return f"{printable(path)} is a symbolic link, which is not followed"
        if not stat.S_ISDIR(mode):
            return f"{printable(path)} is not a directory"
    return "changed while it was opened"
