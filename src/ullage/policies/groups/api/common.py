"""What the three kinds share."""

from __future__ import annotations

from typing import Final

GROUP: Final = "groupsnapshot.storage.k8s.io"
VERSION: Final = "v1beta2"
NEXT_VERSION: Final = "v1"  # of the same fields; newer snapshotters speak it
