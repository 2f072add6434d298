"""What the command lines of all benchmarks have in common: `--smoke`."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn


def parse(parser: argparse.ArgumentParser, **smoke: Any) -> argparse.Namespace:
    """Parses the command line. `smoke` holds the values of `--smoke`; an option that is given beside it still wins."""
    text = "go through every step with the smallest numbers: shows that the benchmark runs, and measures nothing"
    parser.add_argument("--smoke", action="store_true", help=text)
    options = parser.parse_args()
    if options.smoke:
        parser.set_defaults(**smoke)
        options = parser.parse_args()
    return options


def give_up(problem: Exception, options: argparse.Namespace) -> NoReturn:
    """Ends a benchmark that has no control plane to measure on. A smoke run is then skipped; any other run has failed."""
    if options.smoke:
        print(f"skipped: nothing to measure on: {problem}", file=sys.stderr)
        sys.exit(0)
    sys.exit(f"nothing to measure on: {problem}")
