"""A machine's provider spec together with the catalogue in which its flavour is looked up.

What is not there does not stop at "unknown": it says which look-up would answer it, so that somebody can make it in the
background and the next try passes.

A look-up is made of what a tenant wrote. Its region is a word, so that it makes no other host of the provider's address; and a
cloud's address that differs from the site's is refused: whoever lets machines be made through an address of his own could
answer for their sizes, and would be sent the credential.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ullage.errors import BadInput, Retryable
from ullage.ledger.amounts import Amounts
from ullage.projects.sizes.catalogue import Catalogue, FlavourKey, Place
from ullage.projects.sizes.fields import Fields, shown
from ullage.quantity import Quantity
from ullage.times import timestamp

CPU: Final = "cpu"
MEMORY: Final = "memory"
STORAGE: Final = "storage"
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(?:/[A-Za-z0-9./_~-]*)?")
_REGION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


@dataclass(frozen=True, slots=True)
class Site:
    """Where a cluster's machines are made, as its administrator says: what its provider is asked with, its region, and for
    OpenStack the cloud's address. What is empty is left to the machine's spec."""

    credential: str = ""
    region: str = ""
    endpoint: str = ""


ANYWHERE: Final = Site()


@dataclass(frozen=True, slots=True)
class Unknown:
    """A size that nobody can tell: why, and the look-up that would answer it. None: only an edit of the machine helps."""

    reason: str
    lookup: FlavourKey | None = None


class NotKnown(Retryable):
    """Raised where `size_of` is to answer with an Unknown."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__(unknown.reason)
        self.unknown = unknown


@dataclass(frozen=True, slots=True)
class MachineConfig:
    """What a provider's reader is given."""

    provider: str
    spec: Fields  # cloudProviderSpec
    operating_system: str
    catalogue: Catalogue
    site: Site

    def place(self, *, region: str = "", secret: str = "", endpoint: str = "") -> Place:
        """The arguments are names of fields of the spec; one that is not given does not tell places of this provider apart."""
        return Place(
            self.provider,
            region=self._region(region) if region else "",
            credential=self.site.credential or (self.spec.secret(secret) if secret else ""),
            endpoint=self._endpoint(endpoint) if endpoint else "",
        )

    def amounts(self, place: Place, name: str, *resources: str, hint: str = "") -> Amounts:
        """So much of these resources as the flavour of that name has. `hint`: what to write where it does not say."""
        key = FlavourKey(place, name)
        flavour = self.catalogue.find(key)
        if flavour is None:
            raise NotKnown(Unknown(self._not_found(key) + (f"; {hint}" if hint else ""), lookup=key))
        found = {CPU: flavour.cpu, MEMORY: flavour.memory, STORAGE: flavour.storage}
        kept = {resource: amount for resource in resources if (amount := found[resource]) is not None}
        if missing := [resource for resource in resources if resource not in kept]:
            said = f"{_flavour_text(key)} does not say how much {' and '.join(missing)} it has"
            raise NotKnown(Unknown(f"{said}; {hint}" if hint else said))
        return Amounts(kept)

    def _not_found(self, key: FlavourKey) -> str:
        known = self.catalogue.known(key.place)
        if known.refreshed is None:
            said = f"the size of {_flavour_text(key)} is not known yet"
        else:
            said = f"{key.place} has no {shown(key.name)}, as of {timestamp(known.refreshed)}"
        if known.failure:
            said += f"; refreshing fails since {timestamp(known.failure.since)}: {known.failure.reason}"
        return said

    def _region(self, field: str) -> str:
        given = self.spec.text(field)
        # Azure takes "West Europe" for westeurope.
        region = given.replace(" ", "").casefold() if self.provider == "azure" else given
        if region and not _REGION.fullmatch(region):
            raise BadInput(self.spec.at(field), shown(given), "1 to 63 letters, digits, '-', '_' and '.' are allowed")
        return region or self.site.region

    def _endpoint(self, field: str) -> str:
        given, ours = self.spec.text(field).rstrip("/"), self.site.endpoint.rstrip("/")
        if given and not _ADDRESS.fullmatch(given):
            raise BadInput(self.spec.at(field), shown(given), "an address that begins with https:// or http:// is needed")
        if given and ours and given != ours:
            raise BadInput(
                self.spec.at(field), shown(given), f"only {ours}, where this cluster's machines are made, is allowed"
            )
        return given or ours


def storage(*disks: Quantity) -> Amounts:
    return Amounts({STORAGE: sum(disks[1:], disks[0])})


def _flavour_text(key: FlavourKey) -> str:
    return f"{shown(key.name)} of {key.place}"
