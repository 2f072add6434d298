"""KubeVirt's virt-api and virt-controller, what its operator would install, and the launcher pods that it renders. There are no
packages of them.

`python -m tools.peers.kubevirt.build` prints the directory that holds the programs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.peers.go_programs import GoPrograms, NoPrograms, print_place

_COMMANDS = "kubevirt.io/kubevirt/cmd"
KUBEVIRT = GoPrograms(
    what="KubeVirt",
    module=Path(__file__).parent,
    cache="kubevirt",
    packages={
        "virt-api": f"{_COMMANDS}/virt-api",
        "virt-controller": f"{_COMMANDS}/virt-controller",
        "manifests": "./manifests",
        "renderer": "./renderer",
    },
    time="some 6 minutes",
)


def kubevirt(environ: Mapping[str, str]) -> Path:
    """The directory with all programs."""
    return KUBEVIRT.place(environ)


def manifests(programs: Path) -> list[dict[str, Any]]:
    """What KubeVirt's operator installs for virt-api and virt-controller, in the order in which it can be applied."""
    command = [str(programs / "manifests")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise NoPrograms(f"{command[0]} failed with exit code {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(print_place(KUBEVIRT.place))
