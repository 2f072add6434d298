"""`machinerecords.ullage.io`: what the seed has seen of the Machines of one user cluster, out of reach of who administers it.

One for each Cluster, under its name, and for a while after it: what its Machines counted goes on as if each had gone. Ullage
alone writes it. What is in it that counts (`vanished`) is charged to the project's
ledger like a Machine.
"""

from __future__ import annotations

from typing import Annotated, Final

from ullage.kube.kinds import AGE, ATOMIC, Column, Kind, Object, Value
from ullage.kube.objects import Conditions

STAMPED: Final = "Stamped"
REMEMBERED: Final = "Remembered"
CLUSTER_USAGE_FRESH: Final = "UsageFresh"


class VanishedMachine(Value):
    """A Machine whose object is gone, and whose server may still run."""

    key: str
    """Which it was: kind, cluster and uid."""
    cpu: str = "0"
    """The processors that it had."""
    memory: str = "0"
    """The memory that it had, in bytes."""
    storage: str = "0"
    """The disk that it had, in bytes."""
    since: str = ""
    """When it was seen to be gone."""
    created: str = ""
    """When it was made; empty: that was not seen."""
    there: str = ""
    """When its provider last said that its server is there; empty: it never did, or cannot be asked."""


class MachineRecordStatus(Value):
    """What was seen."""

    machines: str = ""
    """The Machines that are there, by uid, each with the most that a valid stamp of it has said or that it was sized to, and
    whether it counts by that for want of a stamp. In a compact form: a digit for the version of the encoding, then base64 (URL
    alphabet, no padding) of a zlib stream of MessagePack."""
    count: int = 0
    """How many these are."""
    vanished: Annotated[tuple[VanishedMachine, ...], ATOMIC] = ()
    """Those that went, and count on for a while: how an object went cannot be told, and its server may still run. Those whose
    servers are there (`there`) count until they are gone."""
    provider: str = ""
    """Where the machines of the cluster are: what is asked, or is not, when the Cluster itself is gone."""
    unstamped: int = 0
    """Machines that are there without a stamp that can be believed, and count by what was found out about them."""
    not_remembered: int = 0
    """Machines beyond the number that is remembered."""
    conditions: Conditions = ()
    """`Stamped`: the stamps of all Machines can be believed, or were put right in time. `Remembered`: there are no more
    Machines than can be remembered. `UsageFresh`: what the Cluster says that its machines take (`status.resourceUsage`) is of
    now; absent: it always was."""


class MachineRecord(Object):
    """What the seed has seen of the Machines of one user cluster. The label `project-id` says which project it counts for."""

    status: MachineRecordStatus = MachineRecordStatus()
    """What was seen."""


MACHINE_RECORDS: Final = Kind(
    "ullage.io",
    "v1alpha1",
    "MachineRecord",
    "machinerecords",
    MachineRecord,
    namespaced=False,
    columns=(
        Column("Machines", ".status.count", type="integer", description="How many Machines are there."),
        Column("Unstamped", ".status.unstamped", type="integer", description="How many count without a stamp.", priority=1),
        AGE,
    ),
)
