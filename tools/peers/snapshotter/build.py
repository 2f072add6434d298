"""The snapshotter that most clusters run: snapshot-controller and csi-snapshotter. There are no packages of them.

`python -m tools.peers.snapshotter.build` prints the directory that holds them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.peers.go_programs import GoPrograms, NoPrograms, print_place

_COMMANDS = "github.com/kubernetes-csi/external-snapshotter/v8/cmd"
_CLIENT = "github.com/kubernetes-csi/external-snapshotter/client/v8"
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


def definitions(environ: Mapping[str, str]) -> Path:
    """The directory with the CustomResourceDefinitions of the pinned version, as it publishes them."""
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise NoPrograms("no Go on the PATH to fetch the definitions of the GA snapshotter with")
    command = [go, "mod", "download", "-json", _CLIENT]
    settings = {**environ, "GOWORK": "off"}
    done = subprocess.run(command, cwd=SNAPSHOTTER.module, env=settings, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoPrograms(f"{' '.join(command)} failed with exit code {done.returncode}: {done.stderr.strip()}")
    return Path(json.loads(done.stdout)["Dir"]) / "config" / "crd"


if __name__ == "__main__":
    sys.exit(print_place(SNAPSHOTTER.place))
