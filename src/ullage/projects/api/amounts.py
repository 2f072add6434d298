"""CPU, memory and disk as KKP writes them: quantities, each of which may be absent."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, UnsetType

from ullage.kube.kinds import Value

GROUP: Final = "kubermatic.k8c.io"
VERSION: Final = "v1"

# As quantities are written everywhere, but for the sign: there is no less than nothing, in figures as in text. How large an
# amount may be is checked by the hook (`projects/quota.py`), and only where the amount changes. A server without ratcheting
# would hold a stored amount that the schema refuses against every write of the object: status, record of grants, finalizers.
_AMOUNT: Final = msgspec.Meta(
    extra_json_schema={
        "pattern": r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$",
        "minimum": 0,
        "maxLength": 64,
    }
)
# Not `None`: no schema of a number or a text takes null, and one that is given is dropped.
Amount = Annotated[str, _AMOUNT] | int | UnsetType


class ResourceDetails(Value):
    """So much CPU, memory and disk."""

    cpu: Amount = UNSET
    """Processors: `4`, `1500m`."""
    memory: Amount = UNSET
    """Memory in bytes: `16Gi`, `16G`."""
    storage: Amount = UNSET
    """The disks of the machines themselves, in bytes: `100Gi`. Volumes that pods claim are not among them."""
