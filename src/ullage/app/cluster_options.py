"""How much a process takes from each user cluster that it follows, as options say it: its administrator may mean harm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.admission.caller_limits import CallerLimits
    from ullage.kube.read_limits import ReadLimits

ClusterMemory = Annotated[
    str,
    typer.Option(
        "--cluster-memory",
        metavar="SIZE",
        help="How much memory the Machines, MachineSets and MachineDeployments of one user cluster may take, on a seed. One"
        " that has more stays as it was last seen, which is told, until it has less.",
    ),
]
ClusterRate = Annotated[
    str,
    typer.Option(
        "--cluster-rate",
        metavar="SIZE",
        help="How much is read from one user cluster in a second, on a seed: as it is in memory, and 8Ki more for each object.",
    ),
]
ClusterReviews = Annotated[
    float,
    typer.Option(
        "--cluster-reviews",
        metavar="N",
        help="How many reviews are answered for one user cluster in a second, on a seed; ten times as many at once. One counts"
        " for several if it is larger than 64Ki, as it is in memory, or has the processor busy for more than a millisecond.",
    ),
]

MEMORY: Final = "256Mi"
RATE: Final = "16Mi"
REVIEWS: Final = 200.0
LEAST: Final = 1024 * 1024  # bytes of either
MOST: Final = 2**40
MOST_REVIEWS: Final = 1_000_000.0
BURST: Final = 4  # seconds' worth that may come at once


def read_limits(memory: str, rate: str) -> ReadLimits:
    """Of each user cluster."""
    from ullage.kube.read_limits import ReadLimits

    each = _size("--cluster-rate", rate)
    return ReadLimits(held=_size("--cluster-memory", memory), rate=each, burst=BURST * each)


def caller_limits(reviews: float) -> CallerLimits:
    """Of each user cluster."""
    from ullage.admission.caller_limits import CallerLimits

    if not (math.isfinite(reviews) and 1 <= reviews <= MOST_REVIEWS):
        raise BadInput("--cluster-reviews", f"{reviews:g}", f"reviews a second from 1 to {MOST_REVIEWS:.0f} are allowed")
    return CallerLimits(reviews=reviews)


def _size(option: str, text: str) -> int:
    from ullage.quantity import Quantity, QuantityError

    try:
        found = Quantity.parse(text).value()
    except QuantityError:
        found = 0
    if not LEAST <= found <= MOST:
        raise BadInput(option, text or "(empty)", "an amount of bytes from 1Mi to 1Ti is allowed, such as 256Mi")
    return found
