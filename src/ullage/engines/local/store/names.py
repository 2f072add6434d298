"""Names of volumes and snapshots, and of the files that are made from them.

Names come from users and become file names: they are checked here, and nothing unchecked gets further. The layout is the one
of a Longhorn replica, so a person who knows that one finds their way.

    NAME/volume.meta                 what the volume is: see `record`
    NAME/volume-head-000.img         what was written since the last snapshot
    NAME/volume-snap-SNAPSHOT.img    what a snapshot holds beyond its parent
"""

from __future__ import annotations

import re
from typing import Final

from ullage.errors import BadInput

HEAD: Final = "volume-head"  # the name of the head among snapshots
RECORD: Final = "volume.meta"
DRAFT: Final = "volume.meta.tmp"  # becomes the record by a rename
MAX_LENGTH: Final = 239  # bytes; a file name has 255, of which ours take 16

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_OURS: Final = re.compile(r"volume-(?:head-[0-9]+|snap-.+)\.img")
_ALLOWED: Final = f"letters, digits, '-', '_' and '.' are allowed, a letter or digit at both ends, at most {MAX_LENGTH} in all"


def check_volume(name: str) -> str:
    if not _is_name(name):
        raise BadInput("volume", repr(name), _ALLOWED)
    return name


def check_snapshot(name: str) -> str:
    if not _is_name(name):
        raise BadInput("snapshot", repr(name), _ALLOWED)
    if name == HEAD:
        raise BadInput("snapshot", name, "is the name of what is being written to; any other is allowed")
    return name


def is_snapshot(name: str) -> bool:
    return _is_name(name) and name != HEAD


def is_volume(name: str) -> bool:
    return _is_name(name)


def head_file(number: int) -> str:
    return f"volume-head-{number:03d}.img"


def snapshot_file(name: str) -> str:
    return f"volume-snap-{name}.img"


def is_ours(file: str) -> bool:
    """Whether a file in a volume's directory is one that we make, and may take away."""
    return file == DRAFT or _OURS.fullmatch(file) is not None


def _is_name(name: str) -> bool:
    return len(name) <= MAX_LENGTH and _NAME.fullmatch(name) is not None
