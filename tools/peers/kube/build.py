"""The programs of a real control plane: where they are, and how they come to be if they are nowhere.

There are no packages of kube-apiserver for every system, so the module in this directory pins its source, and Go builds it
once, in some 6 minutes on 2 cores.

`python -m tools.peers.kube.build` prints the directory that holds them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.peers.go_programs import GoPrograms, NoPrograms, print_place

__all__ = ["NoPrograms", "key", "programs"]

KUBERNETES = "v1.36.3"  # as in go.mod; the program cannot know it by itself, and /version shows it
PROGRAMS = GoPrograms(
    what="kube-apiserver",
    module=Path(__file__).parent,
    cache="kube",
    packages={
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    },
    time="some 6 minutes",
    defines=(f"k8s.io/component-base/version.gitVersion={KUBERNETES}",),
    hint="; or name a directory in KUBEBUILDER_ASSETS",
)


def programs(environ: Mapping[str, str]) -> Path:
    """A directory with all programs: the one that `KUBEBUILDER_ASSETS` names, or the cache, filled where it is empty."""
    given = environ.get("KUBEBUILDER_ASSETS")
    if given:
        missing = [name for name in PROGRAMS.packages if not os.access(Path(given) / name, os.X_OK)]
        if missing:
            raise NoPrograms(f"KUBEBUILDER_ASSETS={given} has no {', no '.join(missing)}")
        return Path(given)
    return PROGRAMS.place(environ)


def key() -> str:
    return PROGRAMS.key()


if __name__ == "__main__":
    sys.exit(print_place(programs))
