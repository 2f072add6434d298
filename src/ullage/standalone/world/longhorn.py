"""Longhorn's names on this machine, and what its Volumes and their PersistentVolumes say. Pure."""

from __future__ import annotations

import re
from typing import Final

from ullage.engines.api import Volume
from ullage.engines.handles import DRIVER, FORM, NAMESPACE, SnapshotHandle
from ullage.errors import BadInput
from ullage.kube.builtin.core import PersistentVolume
from ullage.kube.cache.indexer import Key
from ullage.kube.objects import is_deleting

PERSISTENT_VOLUME_FINALIZER: Final = "ullage.io/longhorn"  # of one whose Volume is ours to delete
VOLUME_FINALIZER: Final = "ullage.io/engine"  # of a Volume that may have data on the host

# What the names in a `dataSource` may be made of: engines have snapshots whose names no object can have.
_VOLUME: Final = re.compile(r"[a-z0-9][-a-z0-9.]*")
_SNAPSHOT: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._]*")


def volume_key(name: str) -> Key:
    return Key(NAMESPACE, name)


def handle_of(volume: PersistentVolume) -> str:
    """The Volume behind a PersistentVolume; empty: it is no volume of engines."""
    source = volume.spec.csi
    return source.volume_handle if source is not None and source.driver == DRIVER else ""


def source_of(volume: Volume) -> SnapshotHandle | None:
    """Where the volume's first data comes from; None: it begins empty."""
    given = volume.spec.data_source
    if not given:
        return None
    found = _handle(given)
    if found is None:
        raise BadInput("spec.dataSource", given, f"{FORM} is allowed")
    return found


def clones_from(volume: Volume) -> str:
    """The volume that this one still needs data of; empty: none."""
    if is_deleting(volume.metadata) or clone_state(volume) in ("completed", "failed"):
        return ""
    found = _handle(volume.spec.data_source)
    return found.volume if found is not None else ""


def clone_state(volume: Volume) -> str:
    found = volume.status.clone_status
    return found.state if found is not None else ""


def _handle(text: str) -> SnapshotHandle | None:
    found = SnapshotHandle.parse(text)
    known = found is not None and _VOLUME.fullmatch(found.volume) and _SNAPSHOT.fullmatch(found.snapshot)
    return found if known else None
