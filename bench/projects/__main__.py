"""`python -m bench.projects`: quotas of many projects on a master and several seeds, beside a quota of one project on one seed.

Both are there at once, each with a master, seeds and user clusters of its own, and take turns, Machine by Machine: whatever
else the computer is busy with hits both alike. Every API server is embedded, and a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from bench.options import parse
from bench.projects.report import render


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.projects", description=__doc__)
    parser.add_argument("--projects", type=int, default=20, help="each with a quota (default 20)")
    parser.add_argument("--seeds", type=int, default=3, help="(default 3)")
    parser.add_argument("--machines", type=int, default=300, help="on all user clusters together (default 300)")
    parser.add_argument(
        "--clusters",
        type=int,
        default=2,
        help="user clusters on each seed, of as many projects; the other projects have none (default 2)",
    )
    parser.add_argument("--decisions", type=int, default=300, help="on each side, one after the other (default 300)")
    options = parse(parser, projects=2, seeds=1, clusters=1, machines=4, decisions=3)
    numbers = (options.projects, options.seeds, options.machines, options.clusters, options.decisions)
    if min(numbers) < 1 or options.clusters > options.projects:
        parser.error("all have to be at least 1, and --clusters at most --projects")
    return options


def main() -> None:
    options = arguments()
    from bench.projects.measure import measure
    from bench.projects.scene import Size
    from tests.e2e.projects_scene import platform

    many = Size(projects=options.projects, seeds=options.seeds, clusters=options.clusters, machines=options.machines)
    with (
        contextlib.redirect_stdout(sys.stderr),  # processes that end show the ends of their logs
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        tempfile.TemporaryDirectory(prefix="bench-") as other,
        platform(Path(folder)) as large,
        platform(Path(other)) as small,
    ):
        found = measure((large, many), (small, many.one()), decisions=options.decisions)
    print(render(*found))


if __name__ == "__main__":
    main()
