"""What the processes' own objects are called: the lease, the webhook's registration and certificate, the API's.

One cluster may run several roles in processes of their own, a master and a seed say: then these are different objects. Where a
process has the role `cluster`, alone or with others, the names are those without anything behind them. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, Self

ControlPlaneRole = Literal["cluster", "master", "seed", "user-cluster"]
CLUSTER: Final[ControlPlaneRole] = "cluster"  # quotas, snapshots and VMs of the cluster itself
MASTER: Final[ControlPlaneRole] = "master"  # project quotas, where administrators set them
SEED: Final[ControlPlaneRole] = "seed"  # and where they are kept, on each cluster that has control planes of user clusters
USER_CLUSTER: Final[ControlPlaneRole] = "user-cluster"  # tells the users of a user cluster more, and is trusted with nothing
ROLES: Final[tuple[ControlPlaneRole, ...]] = (CLUSTER, MASTER, SEED, USER_CLUSTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """`suffix` is behind everything but the lease, which has its own: whoever keeps the ledgers of a cluster has one lease,
    since two who each count other kinds would write over each other's sums."""

    suffix: str = ""
    lease_suffix: str = ""

    @classmethod
    def of(cls, roles: Collection[ControlPlaneRole]) -> Self:
        first = next((role for role in ROLES if role in roles), CLUSTER)
        suffix = "" if first == CLUSTER else f"-{first}"
        return cls(suffix=suffix, lease_suffix="" if {CLUSTER, SEED} & set(roles) else suffix)

    @property
    def lease(self) -> str:
        return f"ullage-controller{self.lease_suffix}"

    @property
    def registration(self) -> str:
        return f"ullage{self.suffix}"

    @property
    def certificate(self) -> str:
        return f"ullage-webhook-tls{self.suffix}"

    @property
    def condition(self) -> str:
        return f"ullage-webhook-status{self.suffix}"

    @property
    def paths(self) -> str:
        """The Secret with the key to the paths under which our own cluster asks."""
        return f"ullage-webhook-paths{self.suffix}"

    @property
    def callers(self) -> str:
        """The Secret with the key to the paths under which other clusters ask."""
        return f"ullage-webhook-callers{self.suffix}"

    @property
    def api_certificate(self) -> str:
        return f"ullage-api-tls{self.suffix}"

    @property
    def api_bundle(self) -> str:
        """The ConfigMap in which clients find what to trust."""
        return f"ullage-api-ca{self.suffix}"


DEFAULT: Final = Names()
EVERY: Final = tuple(Names.of((role,)) for role in ROLES)  # whatever is there of any process
