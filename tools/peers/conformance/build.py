"""Kubernetes' own conformance tests: where the program is, and how it comes to be if it is nowhere.

Kubernetes publishes it as a container image alone, so the module in this directory pins its source, of the version that
`tools/peers/kube` pins, and Go builds it once, in some 3 minutes on 2 cores.

`python -m tools.peers.conformance.build` prints the directory that holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tools.peers.go_programs import GoPrograms, NoPrograms, print_place
from tools.peers.kube.build import KUBERNETES

__all__ = ["NoPrograms", "program"]

NAME = "e2e.test"
PROGRAMS = GoPrograms(
    what="the conformance tests",
    module=Path(__file__).parent,
    cache="conformance",
    packages={NAME: "k8s.io/kubernetes/test/e2e"},
    command=("test", "-c"),
    time="some 3 minutes",
    defines=(f"k8s.io/component-base/version.gitVersion={KUBERNETES}",),
)


def program(environ: Mapping[str, str]) -> Path:
    return PROGRAMS.place(environ) / NAME


if __name__ == "__main__":
    sys.exit(print_place(PROGRAMS.place))
