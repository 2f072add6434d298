"""csi-sanity, the judge of CSI drivers: where it is, and how it comes to be. There are no packages of it.

`python -m tools.peers.csi.build` prints the directory that holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tools.peers.go_programs import GoPrograms, print_place

SANITY = GoPrograms(
    what="csi-sanity",
    module=Path(__file__).parent,
    cache="csi",
    packages={"csi-sanity": "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"},
    time="half a minute",
)


def sanity(environ: Mapping[str, str]) -> Path:
    """The program csi-sanity."""
    return SANITY.place(environ) / "csi-sanity"


if __name__ == "__main__":
    sys.exit(print_place(SANITY.place))
