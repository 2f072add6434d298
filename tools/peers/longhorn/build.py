"""longhorn-engine, the peer of the embedded engine: where it is, and how it comes to be. There are no packages of it.

`python -m tools.peers.longhorn.build` prints the directory that holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tools.peers.go_programs import CLibrary, GoPrograms, print_place

ENGINE = GoPrograms(
    what="longhorn-engine",
    module=Path(__file__).parent,
    cache="longhorn",
    packages={"longhorn": "github.com/longhorn/longhorn-engine"},
    time="a minute",
    library=CLibrary("libqcow.h", "libqcow-dev"),  # it reads backing images in that format
)


def engine(environ: Mapping[str, str]) -> Path:
    """The program `longhorn`: controller, replica and sync agent in one."""
    return ENGINE.place(environ) / "longhorn"


if __name__ == "__main__":
    sys.exit(print_place(ENGINE.place))
