"""What admission and the controllers ask for the size of a machine: whoever keeps the catalogue answers, from memory."""

from __future__ import annotations

from typing import Any, Protocol

from ullage.ledger.amounts import Amounts
from ullage.projects.sizes.catalogue import FlavourKey
from ullage.projects.sizes.lookups import Unknown


class SizeSource(Protocol):
    """Neither call waits for anybody."""

    def size_of(self, cluster: str, provider_spec: Any) -> Amounts | Unknown:
        """What a machine of a user cluster takes; Unknown: nobody can tell now. Raises BadInput, which names the field, where
        no machine can be made of the spec."""

    def want(self, lookup: FlavourKey) -> None:
        """Has the background look a flavour up. Cheap however often it is said, and bounded: tenants make names up."""
