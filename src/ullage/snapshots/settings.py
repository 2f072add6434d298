"""Which drivers' snapshots are ours to take, and where each driver is reached.

Another snapshotter may run in the same cluster. A driver has exactly one owner: what is not named here belongs to somebody
else, and nothing of its snapshots is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

HOSTPATH: Final = "ullage.io/hostpath"
EBS: Final = "kubernetes.io/aws-ebs"

AUDIT_SECONDS: Final = 600.0
MEASURE_SECONDS: Final = 300.0

Owner = Literal["here", "sidecar"]  # the driver is called by the controller itself, or by `ullage csi-sidecar` beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`alone`: no other snapshot controller runs in the cluster. Only then is a snapshot whose driver cannot be told, or that
    nobody is set to manage, ours to answer: otherwise two controllers would write its status."""

    drivers: Mapping[str, Owner] = field(default_factory=dict)
    alone: bool = False
    elsewhere: frozenset[str] = frozenset()  # drivers whose own provisioner fills claims from GA snapshots
    audit_interval: float = AUDIT_SECONDS  # between two lists of what a driver has; 0: its snapshots are not audited
    measure_interval: float = MEASURE_SECONDS  # between two looks at what is in a volume; 0: it is not looked at

    def managed(self, driver: str) -> bool:
        return driver in self.drivers
