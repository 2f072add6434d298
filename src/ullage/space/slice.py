"""The slice as one value: what is charged, the hooks that do it, and the controllers that keep it true."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.kube.slices import Grant, Part, Slice, Wiring
from ullage.space.api import QUOTAS
from ullage.space.routes import ROUTES


def charged(wiring: Wiring) -> Iterable[Any]:
    """Registers the kinds that are charged with the ledgers, in every process."""
    return ()


# Whoever sees a namespace sees its quota. Nobody gets to write it with his namespace.
GRANTS: Final = (Grant(name="quota-view", roles=("view",), kinds=(QUOTAS,), verbs=("get", "list", "watch")),)

# Harvester's own definition of the quota will do where it is there: `served`.
SPACE: Final = Slice(name="space", kinds=(QUOTAS,), served=(QUOTAS,), shared=Part(make=charged), routes=ROUTES, grants=GRANTS)
