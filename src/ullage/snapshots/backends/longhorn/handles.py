"""Handles of Longhorn's snapshots, as its CSI driver writes them: `snap://VOLUME/SNAPSHOT`.

They come from users too, in VolumeSnapshotContents that were written by hand: both names are checked before they become parts
of a path. Handles that begin with `bs://` stand for backups, which lie elsewhere and are not snapshots of a volume.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.errors import Impossible
from ullage.selectors import subdomain_faults, value_faults

DRIVER: Final = "driver.longhorn.io"
NAMESPACE: Final = "longhorn-system"

_SNAPSHOT: Final = "snap://"
_BACKUP: Final = "bs://"
_ALLOWED: Final = f"{_SNAPSHOT}VOLUME/SNAPSHOT is allowed"


@dataclass(frozen=True, slots=True)
class Handle:
    """A snapshot of a volume. As text, it is also what a Volume names as its `dataSource`."""

    volume: str
    snapshot: str

    def __str__(self) -> str:
        return f"{_SNAPSHOT}{self.volume}/{self.snapshot}"


def parsed(text: str) -> Handle:
    if text.startswith(_BACKUP):
        raise Impossible(f"snapshot handle {text}: it stands for a backup, and those are Longhorn's own; {_ALLOWED}")
    volume, _, snapshot = text.removeprefix(_SNAPSHOT).partition("/")
    if not text.startswith(_SNAPSHOT) or not is_name(volume) or not is_name(snapshot):
        raise Impossible(f"snapshot handle {text or '(empty)'}: {_ALLOWED}")
    return Handle(volume, snapshot)


def volume_name(handle: str) -> str:
    """The Volume that a PersistentVolume's handle means: its name."""
    if not is_name(handle) or value_faults(handle):
        raise Impossible(f"volume handle {handle or '(empty)'}: the name of a Volume in {NAMESPACE} is allowed")
    return handle


def is_name(text: str) -> bool:
    return text.isascii() and not subdomain_faults(text)
