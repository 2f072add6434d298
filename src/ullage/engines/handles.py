"""What Longhorn's CSI driver and its objects are called: the driver, its namespace, and handles `snap://VOLUME/SNAPSHOT`.

A handle is what a VolumeSnapshotContent names its snapshot by, and what a Volume names as its `dataSource`. Both may be written
by hand, so whoever reads one checks both names. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.kube.builtin.core import PersistentVolume

DRIVER: Final = "driver.longhorn.io"
NAMESPACE: Final = "longhorn-system"
ALIGNMENT: Final = 2 * 1024**2  # bytes; the size of a volume is a multiple of it

SNAPSHOT_PREFIX: Final = "snap://"
BACKUP_PREFIX: Final = "bs://"  # backups lie elsewhere and are not snapshots of a volume
FORM: Final = f"{SNAPSHOT_PREFIX}VOLUME/SNAPSHOT"


@dataclass(frozen=True, slots=True)
class SnapshotHandle:
    """A snapshot of a volume."""

    volume: str
    snapshot: str

    def __str__(self) -> str:
        return f"{SNAPSHOT_PREFIX}{self.volume}/{self.snapshot}"

    @classmethod
    def parse(cls, text: str) -> SnapshotHandle | None:
        """None where it is not of the form. The names are as they were written: the snapshot's may have a '/'."""
        volume, slash, snapshot = text.removeprefix(SNAPSHOT_PREFIX).partition("/")
        return cls(volume, snapshot) if text.startswith(SNAPSHOT_PREFIX) and slash else None


def engine_volume(volume: PersistentVolume) -> str:
    """The name of the engine's volume behind a PersistentVolume; empty: it is none of those."""
    csi = volume.spec.csi
    return csi.volume_handle if csi is not None and csi.driver == DRIVER else ""


def aligned(size: int) -> int:
    """The smallest size of a volume, in bytes, that has room for this many."""
    return -(-size // ALIGNMENT) * ALIGNMENT
