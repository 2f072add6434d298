"""Snapshots of directories on this machine: real copies of real files."""

from ullage.snapshots.backends.hostpath.backend import DRIVER, HostPath
from ullage.snapshots.backends.hostpath.paths import Settings

__all__ = ["DRIVER", "HostPath", "Settings"]
