"""What backups and restores write down in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from ullage.kube.kinds import OPEN, Value

GROUP: Final = "harvesterhci.io"
VERSION: Final = "v1beta1"

INT64: Final = msgspec.Meta(extra_json_schema={"format": "int64"})
TIME: Final = msgspec.Meta(extra_json_schema={"format": "date-time"})
PERCENT: Final = msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": 100})


class MachineReference(Value):
    """Names a VirtualMachine in the same namespace."""

    api_group: str = "kubevirt.io"
    """The group of the kind: kubevirt.io."""
    kind: str = "VirtualMachine"
    """The kind: VirtualMachine."""
    name: str
    """The name of the VM. It must not be empty."""


class Failure(Value):
    """What went wrong, and when."""

    time: Annotated[str, TIME] = ""
    """When it was first seen."""
    message: str = ""
    """What went wrong: which volume, and why."""


class KeptMeta(Value):
    """The metadata of an object, as it was."""

    name: str = ""
    """Its name."""
    namespace: str = ""
    """Its namespace."""
    uid: str = ""
    """Its uid."""
    labels: Mapping[str, str] = {}
    """Its labels."""
    annotations: Mapping[str, str] = {}
    """Its annotations."""


class KeptObject(Value):
    """An object as it was when the backup was made, so that it can be made again when it is gone."""

    metadata: Annotated[KeptMeta, OPEN] = KeptMeta()
    """Its metadata."""
    spec: Mapping[str, Any] = {}
    """Its spec."""
