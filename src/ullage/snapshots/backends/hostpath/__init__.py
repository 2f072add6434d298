"""Snapshots of directories on this machine: real copies of real files.

`backend` is the `base.Backend`; `snapshots` and `restores` do its work in `threads`. `paths` opens directories below the
configured roots only; `store` keeps directories that are there whole or not at all; `tree_copy` copies a tree until nothing
changes (`scan`, `file_copy`), and `copy_notes` let another process go on with it; `manifest` describes a snapshot;
`errors` translates OSErrors.
"""

from ullage.snapshots.backends.hostpath.backend import DRIVER, HostPathBackend
from ullage.snapshots.backends.hostpath.paths import HostPathSettings

__all__ = ["DRIVER", "HostPathBackend", "HostPathSettings"]
