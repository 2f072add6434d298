"""Snapshots in their directory: `NAME/data` is the copy, `NAME/manifest.json` says what it is of."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from ullage.clock import Clock
from ullage.errors import Impossible, NotNow, UllageError
from ullage.files.trees import DIRECTORY, closing, open_up
from ullage.snapshots.backends.base import BackendSnapshot, Creation, VolumeHandle
from ullage.snapshots.backends.hostpath import errors
from ullage.snapshots.backends.hostpath import manifest as manifests
from ullage.snapshots.backends.hostpath.errors import printable
from ullage.snapshots.backends.hostpath.manifest import Manifest
from ullage.snapshots.backends.hostpath.paths import HostPathSettings, check_name, opened, parts_of, volume_path
from ullage.snapshots.backends.hostpath.sizes import copy_bound, measure
from ullage.snapshots.backends.hostpath.store import DirectoryStore, copied_from
from ullage.snapshots.backends.hostpath.threads import Stop
from ullage.snapshots.backends.hostpath.tree_copy import CopyResult, TreeKeepsChanging, copy_tree

logger = logging.getLogger(__name__)

DATA: Final = "data"


class Snapshots:
    """Takes, finds and deletes them. Every call blocks, and belongs in a thread."""

    def __init__(self, settings: HostPathSettings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.store = DirectoryStore(settings.snapshots, clock=clock)

    def create(self, creation: Creation, stop: Stop) -> BackendSnapshot:
        name = check_name(creation.name)
        self._check_node(creation.volume)
        with self.store.opened() as root, self._making(creation, stop), self.store.locked(root, name, stop=stop):
            if found := self._existing(root, creation):
                self.store.clear(root, name)
                return self._backend_snapshot(found)
            return self._backend_snapshot(self._take(root, creation, stop))

    def undo(self, creation: Creation, stop: Stop) -> None:
        name = check_name(creation.name)
        with self.store.opened() as root, _removing(f"snapshot {name}"), self.store.locked(root, name, stop=stop):
            self.store.clear(root, name)
            found = self.read(root, name)
            if found is None or _same(found.volume, creation.volume.handle):  # another volume's was there before
                self.store.retire(root, name)

    def delete(self, handle: str, stop: Stop) -> None:
        name = self.store.name_of(handle, what="snapshot")
        with self.store.opened() as root, _removing(f"snapshot {name}"), self.store.locked(root, name, stop=stop):
            self.store.clear(root, name)
            self.store.retire(root, name)

    def find(self, handle: str, stop: Stop) -> tuple[BackendSnapshot, Manifest] | None:
        stop.check()
        name = self.store.name_of(handle, what="snapshot")
        with self.store.opened() as root, _reading(f"snapshot {name}"):
            found = self.read(root, name)
        return (self._backend_snapshot(found), found) if found else None

    def names(self, stop: Stop) -> list[str]:
        stop.check()
        with self.store.opened(), _reading("snapshots"):
            return self.store.names()

    def read_all(self, names: Iterable[str], volume: str, stop: Stop) -> list[BackendSnapshot]:
        """Those among these names that are snapshots, of one volume or of any."""
        stop.check()
        with self.store.opened() as root, _reading("snapshots"):
            found = [self.read(root, name) for name in names]
        return [self._backend_snapshot(one) for one in found if one and (not volume or _same(one.volume, volume))]

    def is_here(self, volume: VolumeHandle) -> bool:
        """Whether its files are on this node."""
        return volume.node == self._settings.node or (not volume.node and self._settings.single_node)

    def estimate(self, volume: VolumeHandle, stop: Stop) -> int:
        """The bytes that a copy of a volume of this node would take at most."""
        with (
            self.store.opened() as root,
            _reading(f"volume {printable(volume.handle)}"),
            opened(volume_path(volume.handle, self._settings.volumes)) as source,
        ):
            return copy_bound(source, block=os.statvfs(root).f_frsize, stop=stop)

    def read(self, root: int, name: str) -> Manifest | None:
        with self.store.entry(root, name) as directory:
            return None if directory is None else manifests.read(directory, name)

    def _take(self, root: int, creation: Creation, stop: Stop) -> Manifest:
        source_path = volume_path(creation.volume.handle, self._settings.volumes)
        with (
            opened(source_path) as source,
            self.store.staged(root, creation.name, of=copied_from(creation.volume.handle, source)) as staging,
        ):
            with suppress(FileExistsError):
                os.mkdir(DATA, 0o700, dir_fd=staging)
            open_up(staging, DATA)
            with closing(os.open(DATA, DIRECTORY, dir_fd=staging)) as target:
                scratch, notes = self.store.scratch(creation.name), self.store.notes(creation.name)
                taken = copy_tree(source, target, clock=self._clock, stop=stop, scratch=scratch, notes=notes)
                manifest = self._manifest(creation, taken, target=target, stop=stop)
            manifests.write(staging, manifest)
            self.store.publish(root, creation.name)
        if manifest.skipped:
            about = {"snapshot": manifest.name, "volume": manifest.volume, "count": manifest.skipped}
            logger.warning("sockets and devices were left out of a snapshot", extra=about)
        return manifest

    def _manifest(self, creation: Creation, taken: CopyResult, *, target: int, stop: Stop) -> Manifest:
        usage = measure(target, stop=stop)
        return Manifest(
            format=manifests.FORMAT,
            name=creation.name,
            volume=creation.volume.handle,
            node=self._settings.node,
            cut=taken.cut,
            entries=usage.entries,
            apparent=usage.apparent,
            allocated=usage.allocated,
            skipped=taken.skipped,
            skippedPaths=tuple(printable(path) for path in manifests.noted(taken.skipped_paths)),
        )

    def _existing(self, root: int, creation: Creation) -> Manifest | None:
        found = self.read(root, creation.name)
        if found is None:
            with self.store.entry(root, creation.name) as directory:
                if directory is not None:
                    path = self.store.path(creation.name)
                    raise Impossible(f"snapshot {creation.name}: {path} is there, without a valid {manifests.FILE}; remove it")
        elif not _same(found.volume, creation.volume.handle):
            theirs, ours = printable(found.volume), printable(creation.volume.handle)
            raise Impossible(f"snapshot {creation.name}: is there already, of volume {theirs}, not of {ours}")
        return found

    def _check_node(self, volume: VolumeHandle) -> None:
        here = self._settings.node
        if not volume.node and not self._settings.single_node:
            raise Impossible(
                f"volume {printable(volume.handle)} has no node affinity, so nothing tells on which node its files are; "
                "give its PersistentVolume one, or have an administrator start the controller with --hostpath-single-node",
                reason="NodeUnknown",
            )
        if volume.node not in ("", here):
            raise Impossible(
                f"volume {printable(volume.handle)} is on node {volume.node}, this controller runs on {here}: "
                "only a controller on the volume's own node can copy its files"
            )

    @contextmanager
    def _making(self, creation: Creation, stop: Stop) -> Iterator[None]:
        what = f"snapshot of {printable(creation.volume.handle)}"
        try:
            yield
        except TreeKeepsChanging as error:
            raise NotNow(f"{what}: {error}") from error
        except OSError as error:
            needed = self._needed(creation.volume, stop) if error.errno in errors.FULL else None
            raise errors.copy_error(error, what=what, place=self._settings.snapshots, needed=needed) from error

    def _needed(self, volume: VolumeHandle, stop: Stop) -> int | None:
        """For a message that must not fail itself."""
        with suppress(UllageError):
            return self.estimate(volume, stop) if self.is_here(volume) else None
        return None

    def _backend_snapshot(self, manifest: Manifest) -> BackendSnapshot:
        """Restored files keep their holes, so what is allocated is what a new volume needs, not what files claim to be."""
        return BackendSnapshot(
            handle=str(self.store.path(manifest.name)),
            volume=manifest.volume,
            cut=manifest.cut,
            ready=True,
            restore_size=manifest.allocated,
        )


def _same(one: str, other: str) -> bool:
    """Whether two handles are one volume; slashes at the end make no difference."""
    return one == other or parts_of(one) == parts_of(other)


@contextmanager
def _removing(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise errors.remove_error(error, what=what) from error


@contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise errors.read_error(error, what=what) from error
