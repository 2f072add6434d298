"""Which numbers are decimal (M, G) and which are binary (Mi, Gi): the one place where that is said.

Providers write "GB" for either. Quotas compare real bytes, so a wrong row here is an error of up to 7.4 %.

| provider     | memory                          | disk                                                             |
|--------------|---------------------------------|------------------------------------------------------------------|
| alibaba      | Gi (`MemorySize`)               | Gi (`diskSize`; the system disk and a data disk of the same size) |
| aws          | Mi (`SizeInMiB`)                | G  (`diskSize`), as the peer counts; EBS makes it Gi             |
| azure        | Mi (`memoryInMB`), Gi (`MemoryGB`) | Gi (`osDiskSize` + `dataDiskSize`)                            |
| digitalocean | Mi (`memory`)                   | Gi (`disk`)                                                      |
| equinixmetal | Gi (`"32GB"`: memory modules)   | G  (`"480GB"`: drives are sold in decimal)                       |
| gce          | Mi (`memoryMb`, custom types)   | Gi (`diskSize`)                                                  |
| hetzner      | Gi (`memory`)                   | G  (`disk`)                                                      |
| nutanix      | M  (`memoryMB`), as the peer counts; Prism makes it Mi | G (`diskSize`), likewise                  |
| openstack    | Mi (`ram`)                      | Gi (`disk`, `rootDiskSizeGB`)                                    |
| vsphere      | M  (`memoryMB`), as the peer counts; vCenter makes it Mi | G (`diskSizeGB`), likewise              |

Equinix, Hetzner and DigitalOcean say "GB" and no more. Memory comes in powers of two everywhere; of disks, DigitalOcean's are
taken for the larger unit.

KubeVirt's machines and fake ones are written in quantities, which carry their unit.

Where the peer counts in decimal what the provider makes binary, its figures win: quotas that were set with it go on to mean the
same number of machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

from ullage.quantity import Format, Quantity


@dataclass(frozen=True, slots=True)
class Unit:
    """So many bytes. `most`: no number of it that is larger is a size of anything."""

    name: str
    size: int
    format: Format
    most: int

    def of(self, number: int | Fraction) -> Quantity:
        """That many; part of a byte is a byte."""
        return Quantity.of(ceil(number * self.size), self.format)


@dataclass(frozen=True, slots=True)
class Units:
    """What a provider counts memory and disks in."""

    memory: Unit
    disk: Unit


M: Final = Unit("M", 10**6, Format.DECIMAL_SI, 10**12)
G: Final = Unit("G", 10**9, Format.DECIMAL_SI, 10**9)
MI: Final = Unit("Mi", 1 << 20, Format.BINARY_SI, 1 << 40)
GI: Final = Unit("Gi", 1 << 30, Format.BINARY_SI, 1 << 30)

UNITS: Final[Mapping[str, Units]] = {
    "alibaba": Units(memory=GI, disk=GI),
    "aws": Units(memory=MI, disk=G),
    "azure": Units(memory=MI, disk=GI),
    "digitalocean": Units(memory=MI, disk=GI),
    "equinixmetal": Units(memory=GI, disk=G),
    "gce": Units(memory=MI, disk=GI),
    "hetzner": Units(memory=GI, disk=G),
    "nutanix": Units(memory=M, disk=G),
    "openstack": Units(memory=MI, disk=GI),
    "vsphere": Units(memory=M, disk=G),
}

# Of one machine. Larger ones are mistakes or attacks: sums of these stay numbers of a few dozen digits.
MOST_CPUS: Final = 100_000
MOST_CPU: Final = Quantity.of(MOST_CPUS)
MOST_BYTES: Final = Quantity.of(1 << 60, Format.BINARY_SI)
