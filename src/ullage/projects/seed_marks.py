"""What a person says of a seed by annotations of its Seed object: that it is to leave, or is gone for good. Pure.

Nothing but such a mark, the deletion of the Seed, or the seed itself frees what it was granted: time alone never does.
"""

from __future__ import annotations

from typing import Final

from ullage.kube.objects import is_deleting
from ullage.projects.api.kkp import Seed
from ullage.projects.names import DRAINED, DRAINING

YES: Final = "true"
GONE: Final = "gone"  # of a dead seed: its machines are gone, too


def is_draining(seed: Seed) -> bool:
    """Whether a seed is to get no more than it uses: an administrator asked for it, or its object is being deleted."""
    meta = seed.metadata
    return is_deleting(meta) or meta.annotations.get(DRAINING) == YES or is_dead(seed)


def is_dead(seed: Seed) -> bool:
    return seed.metadata.annotations.get(DRAINED) in (YES, GONE)


def is_gone(seed: Seed) -> bool:
    """Whether its machines are gone with it."""
    return seed.metadata.annotations.get(DRAINED) == GONE
