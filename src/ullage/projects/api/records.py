"""`machinerecords.ullage.io`: what the seed has seen of the Machines of one user cluster, out of reach of who administers it.

One for each Cluster, under its name. Ullage alone writes it. What is in it that counts (`vanished`) is charged to the project's
ledger like a Machine.
"""

from __future__ import annotations

from typing import Annotated, Final

from ullage.kube.kinds import AGE, ATOMIC, Column, Kind, Object, Value


class VanishedMachine(Value):
    """A Machine whose object is gone, and whose server may still run."""

    key: str
    """Which it was: kind, cluster, namespace, name and uid."""
    cpu: str = "0"
    """The processors that it had."""
    memory: str = "0"
    """The memory that it had, in bytes."""
    storage: str = "0"
    """The disk that it had, in bytes."""
    since: str = ""
    """When it was seen to be gone."""
    provider_id: str = ""
    """How the provider knows its server; empty: nobody can ask."""


class MachineRecordStatus(Value):
    """What was seen."""

    machines: str = ""
    """The Machines that are there, by uid, each with the most that a valid stamp of it has said, in a compact form: a digit for
    the version of the encoding, then base64 (URL alphabet, no padding) of a zlib stream of MessagePack."""
    count: int = 0
    """How many these are."""
    vanished: Annotated[tuple[VanishedMachine, ...], ATOMIC] = ()
    """Those that went, and count on for a while: how an object went cannot be told, and its server may still run."""
    not_remembered: int = 0
    """Machines beyond the number that is remembered."""


class MachineRecord(Object):
    """What the seed has seen of the Machines of one user cluster. The label `project-id` says which project it counts for."""

    status: MachineRecordStatus = MachineRecordStatus()
    """What was seen."""


RECORDS: Final = Kind(
    "ullage.io",
    "v1alpha1",
    "MachineRecord",
    "machinerecords",
    MachineRecord,
    namespaced=False,
    columns=(
        Column("Machines", ".status.count", type="integer", description="How many Machines are there."),
        AGE,
    ),
)
