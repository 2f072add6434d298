"""Records the launcher pods of KubeVirt anew: `python -m tools.peers.kubevirt.record` renders every case of
`tests/unit/vms/kubevirt_pods/cases.jsonl` with KubeVirt's own code of the pinned version.

It writes `pods_<version>.jsonl` beside the cases; `--check` writes nothing and says which lines differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.peers.go_programs import NoPrograms, say
from tools.peers.kubevirt.build import kubevirt

VERSION = "v1.6.0"  # as in go.mod
RECORDED = Path(__file__).parents[3] / "tests" / "unit" / "vms" / "kubevirt_pods"


def render(cases: str, environ: Mapping[str, str]) -> list[str]:
    """A line for each line of `cases`."""
    command = [str(kubevirt(environ) / "renderer")]
    done = subprocess.run(command, input=cases, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise NoPrograms(f"{command[0]} failed with exit code {done.returncode}: {done.stderr.strip()[-1000:]}")
    return done.stdout.splitlines()


def differences(recorded: Sequence[str], rendered: Sequence[str]) -> list[str]:
    """The names of the lines that say something else than before, with the fields in which they do."""
    if len(recorded) != len(rendered):
        return [f"{len(recorded)} lines are recorded, {len(rendered)} were rendered"]
    found: list[str] = []
    for old, new in zip(map(json.loads, recorded), map(json.loads, rendered), strict=True):
        changed = [f"{key} {old.get(key)} is now {new.get(key)}" for key in _fields(old, new) if old.get(key) != new.get(key)]
        found += [f"{new['name']}: {'; '.join(changed)}"] if changed else []
    return found


def _fields(*lines: Mapping[str, Any]) -> list[str]:
    return sorted({key for line in lines for key in line})


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.peers.kubevirt.record", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; say which lines differ from the recorded ones")
    options = parser.parse_args(arguments)
    path = RECORDED / f"pods_{VERSION}.jsonl"
    try:
        rendered = render((RECORDED / "cases.jsonl").read_text(), os.environ)
    except NoPrograms as problem:
        say(str(problem))
        return 1
    if options.check:
        found = differences(path.read_text().splitlines(), rendered)
        print("\n".join(found) or f"all {len(rendered)} pods of {VERSION} are as recorded")
        return 1 if found else 0
    path.write_text("".join(f"{line}\n" for line in rendered))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
