"""A machine, its instance and a migration of it, small and big, as decisions read them."""

from __future__ import annotations

from typing import Any, Final

from tests.unit.headroom import builders
from ullage.headroom.cost import spec_cost, write_cost
from ullage.ledger.charging.stamps import COST, STAMP, Stamp
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS

DOMAINS: Final = {"small": builders.domain(), "big": builders.domain("2", "3Gi", "2Gi")}
COSTS: Final = {size: spec_cost({"domain": domain}, builders.SEED) for size, domain in DOMAINS.items()}
SMALL, BIG = COSTS["small"], COSTS["big"]


def machine(size: str, *, runs: bool = False, stamp: Stamp | str | None = None) -> Any:
    says: dict[str, Any] = {"strategy": "Always", "printable": "Running", "created": True} if runs else {"printable": "Stopped"}
    made = builders.machine(
        **says, annotations=_marks(stamp, COSTS[size]), template=DOMAINS[size], uid=builders.UID, labels={"size": size}
    )
    return builders.made(VIRTUAL_MACHINES, made)


def instance(
    size: str, *, owner: str = builders.UID, phase: str = "Running", stamp: Stamp | None = None, uid: str = "i"
) -> Any:
    made = builders.instance(
        owner=owner,
        phase=phase,
        annotations=_marks(stamp, COSTS[size]),
        given=DOMAINS[size],
        uid=uid,
        labels={"size": size},
    )
    return builders.made(INSTANCES, made)


def migration(*, phase: str = "Running", stamp: Stamp | None = None) -> Any:
    marks = {} if stamp is None else {STAMP: str(stamp)}
    return builders.made(MIGRATIONS, builders.migration(phase=phase, annotations=marks))


def _marks(stamp: Stamp | str | None, cost: Any) -> dict[str, str]:
    """What was there before anybody stamped it has neither."""
    return {} if stamp is None else {STAMP: str(stamp), COST: write_cost(cost)}
