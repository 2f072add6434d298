"""Trees of files for tests: everything that a copy has to keep, as a value that can be compared."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from ullage.clock import SystemClock
from ullage.snapshots.backends.hostpath.threads import Stop
from ullage.snapshots.backends.hostpath.tree_copy import CopyResult, copy_tree

Description = dict[str, tuple[object, ...]]


def described(top: Path, *, times: bool = True) -> Description:
    """Every entry: kind, mode, owners, time of change, content and its hard links."""
    names: dict[tuple[int, int], list[str]] = {}
    entries: Description = {}
    for directory, directories, files in os.walk(os.fsencode(top)):
        for name in [b".", *directories, *files]:
            path = os.path.join(directory, name)
            relative = os.fsdecode(os.path.relpath(path, os.fsencode(top)))
            found = os.lstat(path)
            if not stat.S_ISDIR(found.st_mode):
                names.setdefault((found.st_dev, found.st_ino), []).append(relative)
            content: object = None
            if stat.S_ISREG(found.st_mode):
                content = found.st_size, hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest(), _attributes(path)
            elif stat.S_ISDIR(found.st_mode):
                content = _attributes(path)
            elif stat.S_ISLNK(found.st_mode):
                content = os.readlink(path)
            moment = found.st_mtime_ns if times else None
            entries[relative] = (oct(found.st_mode), found.st_uid, found.st_gid, moment, content)
    return entries | {" + ".join(sorted(group)): ("one file",) for group in names.values() if len(group) > 1}


def _attributes(path: bytes) -> dict[str, bytes]:
    return {name: os.getxattr(path, name) for name in os.listxattr(path) if name.startswith(("user.", "system.posix_acl_"))}


def copied(source: Path, target: Path) -> CopyResult:
    """Copies a tree to a new directory."""
    target.mkdir()
    ours, theirs = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (source, target))
    try:
        return copy_tree(ours, theirs, clock=SystemClock(), stop=Stop())
    finally:
        os.close(ours)
        os.close(theirs)


def allocated(path: Path) -> int:
    return path.lstat().st_blocks * 512
