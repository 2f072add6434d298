"""Whether a machine takes what it is stamped with: not where it is stopped for good. Pure, and of the object alone.

In doubt it does. A machine that restarts shows itself as stopped for a moment, and then there is a request to start; one whose
run strategy was just changed shows what it did under the one before.
"""

from __future__ import annotations

from typing import Final

from ullage.vms.api.machines import VirtualMachine, VirtualMachineInstance
from ullage.vms.api.migrations import VirtualMachineInstanceMigration
from ullage.vms.lifecycle import ALWAYS, HALTED, MANUAL, START, run_strategy

STOPPED: Final = "Stopped"
TERMINATING: Final = "Terminating"
# A machine that nobody has started may show what its disks lack.
NOT_STARTED: Final = frozenset({"", "Provisioning", "WaitingForVolumeBinding", "DataVolumeError", "ErrorPvcNotFound"})
FINISHED: Final = frozenset({"Succeeded", "Failed"})


def counts(machine: VirtualMachine) -> bool:
    """Whether it runs, or may do so without anybody asking again."""
    status, strategy = machine.status, run_strategy(machine)
    if strategy == ALWAYS or any(one.action == START for one in status.state_change_requests):
        return True
    if status.printable_status == TERMINATING:
        return status.created
    by_hand = strategy in (HALTED, MANUAL)
    if not by_hand and status.run_strategy != strategy:
        return True  # it starts under any other strategy, once
    if status.printable_status == STOPPED:
        return False
    return not by_hand or status.created or status.printable_status not in NOT_STARTED


def is_finished(one: VirtualMachineInstance | VirtualMachineInstanceMigration) -> bool:
    """It has come to its end, well or not, and takes nothing any more."""
    return one.status.phase in FINISHED
