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

from ullage.engines.chain import HEAD, MAX_NAME, entry_of_file
from ullage.errors import BadInput

RECORD: Final = "volume.meta"
DRAFT: Final = "volume.meta.tmp"  # becomes the record by a rename

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_ALLOWED: Final = f"letters, digits, '-', '_' and '.' are allowed, a letter or digit at both ends, at most {MAX_NAME} in all"


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


def is_ours(file: str) -> bool:
    """Whether a file in a volume's directory is one that we make, and may take away."""
    return file == DRAFT or entry_of_file(file) is not None


def _is_name(name: str) -> bool:
    return len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None
