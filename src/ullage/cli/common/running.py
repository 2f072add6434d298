"""How a command runs: connected to its cluster, until it is done or Ctrl-C comes."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from ullage.cli.common.arguments import At

if TYPE_CHECKING:
    from ullage.cli.common.session import Session

INTERRUPTED: Final = 130
R = TypeVar("R")


def run(at: At, work: Callable[[Session], Awaitable[R]], *, goes_on: str = "", stopped: str = "stopped waiting") -> R:
    """What the cluster was asked for before a Ctrl-C is not taken back: `goes_on` says so."""
    from ullage.cli.common import session

    try:
        return session.connected(at, work)
    except KeyboardInterrupt:
        print(f"\nullage: {stopped}; {goes_on}" if goes_on else "", file=sys.stderr)
        sys.exit(INTERRUPTED)
