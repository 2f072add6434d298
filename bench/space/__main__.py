"""`python -m bench.space`: how long a decision about snapshot space takes in a namespace with 100 VMs, 1,000 claims and 30,000
snapshots, beside one with a single VM, claim and snapshot.

Both are on one real kube-apiserver, with one webhook and one controller, and take turns, decision by decision: whatever else
the machine is busy with hits both alike. With `--embedded` they are on the embedded server instead.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from bench.options import parse
from bench.space.report import render


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.space", description=__doc__)
    parser.add_argument("--vms", type=int, default=100, help="of the large namespace, each with a limit (default 100)")
    parser.add_argument("--claims", type=int, default=1_000, help="of the large namespace (default 1,000)")
    parser.add_argument("--snapshots", type=int, default=30_000, help="of the large namespace (default 30,000)")
    parser.add_argument("--decisions", type=int, default=1_000, help="of each kind in each namespace (default 1,000)")
    parser.add_argument("--embedded", action="store_true", help="on the embedded server, not on kube-apiserver")
    return parse(parser, vms=2, claims=4, snapshots=8, decisions=5, embedded=True)


def main() -> None:
    options = arguments()
    from bench.space.decisions import Size, measure
    from tests.e2e.choice import DISPOSABLE
    from tests.e2e.snapshot_scene import scene

    if not options.embedded:
        os.environ[DISPOSABLE] = "1"  # a real control plane that goes with us

    large = Size(vms=options.vms, claims=options.claims, snapshots=options.snapshots)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, scene(Path(folder)) as made:
        found = asyncio.run(measure(made, large, decisions=options.decisions))
    print(render(large, found))
    sys.exit(0)


if __name__ == "__main__":
    main()
