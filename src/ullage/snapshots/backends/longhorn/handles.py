"""Handles of Longhorn's snapshots, as its CSI driver writes them: `snap://VOLUME/SNAPSHOT`.

They come from users too, in VolumeSnapshotContents that were written by hand: both names are checked before they become parts
of a path. Handles that begin with `bs://` stand for backups, which lie elsewhere and are not snapshots of a volume.
"""

from __future__ import annotations

from typing import Final

from ullage.engines.handles import BACKUP_PREFIX, FORM, NAMESPACE, SnapshotHandle
from ullage.errors import Impossible
from ullage.names import is_subdomain
from ullage.selectors import value_faults

_ALLOWED: Final = f"{FORM} is allowed"


def parsed(text: str) -> SnapshotHandle:
    if text.startswith(BACKUP_PREFIX):
        raise Impossible(f"snapshot handle {text}: it stands for a backup, and those are Longhorn's own; {_ALLOWED}")
    found = SnapshotHandle.parse(text)
    if found is None or not is_subdomain(found.volume) or not is_subdomain(found.snapshot):
        raise Impossible(f"snapshot handle {text or '(empty)'}: {_ALLOWED}")
    return found


def volume_name(handle: str) -> str:
    """The Volume that a PersistentVolume's handle means: its name."""
    if not is_subdomain(handle) or value_faults(handle):
        raise Impossible(f"volume handle {handle or '(empty)'}: the name of a Volume in {NAMESPACE} is allowed")
    return handle
