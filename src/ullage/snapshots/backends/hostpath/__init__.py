"""Snapshots of directories on this machine: real copies of real files."""

from ullage.snapshots.backends.hostpath.backend import DRIVER, HostPathBackend
from ullage.snapshots.backends.hostpath.paths import HostPathSettings

__all__ = ["DRIVER", "HostPathBackend", "HostPathSettings"]
