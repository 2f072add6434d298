"""The wire protocol of volume engines, and of the host of the embedded ones.

`controller`, `replica` and `syncagent` carry Longhorn's published names and numbers, so that what is written against them
drives a real longhorn-engine; they have the calls that Ullage makes and no others. `host` is our own.
"""

from typing import Final

MAX_MESSAGE: Final = 16 * 1024 * 1024  # bytes; a replica with 250 snapshots takes some 40 KiB, data more
