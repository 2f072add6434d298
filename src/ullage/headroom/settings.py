"""How VMs are charged for, and whose word on the status of a machine is believed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from ullage.errors import BadInput
from ullage.kube.identities import WORLD, account
from ullage.kube.review import Review
from ullage.vms.pricing import PricingChoice
from ullage.vms.settings import Mode

KUBEVIRT_NAMESPACES: Final = ("kubevirt", "harvester-system")
KUBEVIRT_ACCOUNTS: Final = ("kubevirt-controller", "kubevirt-apiserver", "kubevirt-handler", "kubevirt-operator")

# `reserve`: from the share of the quota that is kept for them. `scale-quota`: besides, from a core ResourceQuota that is raised
# while they go on.
Migration = Literal["reserve", "scale-quota"]
MIGRATION_MODES: Final[tuple[Migration, ...]] = get_args(Migration)


def kubevirt_identities(namespaces: Iterable[str] = KUBEVIRT_NAMESPACES) -> frozenset[str]:
    """KubeVirt's own service accounts, as users, and whoever plays its part on one machine."""
    found = (f"system:serviceaccount:{namespace}:{name}" for namespace in namespaces for name in KUBEVIRT_ACCOUNTS)
    return frozenset((*found, account(WORLD)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`trusted` are users. What they say of a status has happened: it is counted even where it does not fit. They start nothing
    that does not fit, since they do so for others."""

    trusted: frozenset[str] = kubevirt_identities()
    pricing: PricingChoice = PricingChoice()  # noqa: RUF009  a value
    restores: Mode = "observe"  # whether restores of VMs are ours
    migration: Migration = "reserve"  # where the room for migrations comes from

    def __post_init__(self) -> None:
        if self.migration not in MIGRATION_MODES:
            raise BadInput("migration", self.migration, f"one of {', '.join(MIGRATION_MODES)} is allowed")

    def trusts(self, review: Review) -> bool:
        """Whether KubeVirt asks. In another cluster anybody can claim to."""
        return not review.cluster and review.user.username in self.trusted
