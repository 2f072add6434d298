"""What a person is told when a machine does not fit, or may not be changed: every number with its unit, and a next step."""

from __future__ import annotations

from typing import Final

from ullage.headroom.accounts import MAINTENANCE, VMS
from ullage.ledger.amounts import spell
from ullage.ledger.book import Over, Refusal

NO_ROOM: Final = "VM available resources are insufficient"
NO_RESERVE: Final = "maintenance resource is insufficient"
BEGINNINGS: Final = {VMS: NO_ROOM, MAINTENANCE: NO_RESERVE}


def refusal_text(refusal: Refusal, *, next_step: str) -> str:
    """`VM available resources are insufficient: cpu: asked 1 core, used 2 cores, pending 0, share 2 cores; memory: …. Next: …`.

    One line. Where both shares are exceeded both are said, each with its own."""
    accounts = dict.fromkeys(one.account for one in refusal.over)
    said = ". ".join(_account_text(account, [one for one in refusal.over if one.account == account]) for account in accounts)
    return f"{said}. Next: {next_step}"


def over_text(over: Over) -> str:
    name = over.resource
    return (
        f"{name}: asked {spell(name, over.asked)}, used {spell(name, over.used)}, pending {spell(name, over.reserved)},"
        f" share {spell(name, over.limit, down=True)}"
    )


def vms_step(namespace: str) -> str:
    """What to do where the VMs' share is full."""
    return f"ullage usage -n {namespace}, then ullage vm stop NAME -n {namespace}, or have the quota raised"


def migrations_step(namespace: str) -> str:
    """What to do where the share for migrations is full."""
    return f"kubectl get vmim -n {namespace}, and try again when one of them has ended, or have the reserve raised"


def exceeded_text(namespace: str) -> str:
    """While the namespace is over its quota."""
    return (
        f"namespace {namespace} exceeds its quota (harvesterhci.io/exceedsQuota): until it does not any more, VMs may be"
        f" stopped, deleted and made smaller, and nothing else. Next: {vms_step(namespace)}"
    )


def _account_text(account: str, over: list[Over]) -> str:
    return f"{BEGINNINGS.get(account, account)}: {'; '.join(map(over_text, over))}"
