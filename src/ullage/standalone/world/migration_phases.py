"""How far a migration is, in KubeVirt's words, and what several controllers read from that. Pure."""

from __future__ import annotations

from typing import Final

from ullage.vms.api.migrations import VirtualMachineInstanceMigration as Migration

PENDING: Final = "Pending"
SCHEDULING: Final = "Scheduling"
SCHEDULED: Final = "Scheduled"
PREPARING_TARGET: Final = "PreparingTarget"
TARGET_READY: Final = "TargetReady"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
OVER: Final = (SUCCEEDED, FAILED)

LIVE_MIGRATABLE: Final = "LiveMigratable"  # the condition of an instance


def is_final(migration: Migration) -> bool:
    return migration.status.phase in OVER


def ends(old: Migration | None, new: Migration | None) -> bool:
    """Whether a change was the end of one: it is over now, or gone."""
    return old is not None and not is_final(old) and (new is None or is_final(new))
