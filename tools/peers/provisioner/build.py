"""external-provisioner, which makes volumes for claims with any CSI driver: csi-provisioner. There are no packages of it.

`python -m tools.peers.provisioner.build` prints the directory that holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tools.peers.go_programs import GoPrograms, print_place

PROVISIONER = GoPrograms(
    what="external-provisioner",
    module=Path(__file__).parent,
    cache="provisioner",
    packages={"csi-provisioner": "github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner"},
    time="two minutes",
)


def provisioner(environ: Mapping[str, str]) -> Path:
    """The directory with the program."""
    return PROVISIONER.place(environ)


if __name__ == "__main__":
    sys.exit(print_place(PROVISIONER.place))
