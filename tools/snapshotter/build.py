"""The snapshotter that most clusters run: snapshot-controller and csi-snapshotter. There are no packages of them.

`python -m tools.snapshotter.build` prints the directory that holds them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tools.go_programs import GoPrograms, print_place

_COMMANDS = "github.com/kubernetes-csi/external-snapshotter/v8/cmd"
SNAPSHOTTER = GoPrograms(
    what="the GA snapshotter",
    module=Path(__file__).parent,
    cache="snapshotter",
    packages={name: f"{_COMMANDS}/{name}" for name in ("snapshot-controller", "csi-snapshotter")},
    time="two minutes",
)


def snapshotter(environ: Mapping[str, str]) -> Path:
    """The directory with both programs."""
    return SNAPSHOTTER.place(environ)


if __name__ == "__main__":
    sys.exit(print_place(SNAPSHOTTER.place))
