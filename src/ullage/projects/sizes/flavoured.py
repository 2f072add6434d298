"""Providers whose machines name a flavour: cpu and memory are looked up, disks are the flavour's or the machine's own.

Names of fields are those of machine-controller's provider specs. What its provider would refuse is refused here, too, since a
size could not be told of it.
"""

from __future__ import annotations

import re
from typing import Final

from ullage.errors import BadInput
from ullage.ledger.amounts import Amounts
from ullage.projects.sizes.fields import Fields, needed_size, shown
from ullage.projects.sizes.lookups import CPU, MEMORY, STORAGE, MachineConfig, storage
from ullage.projects.sizes.units import MOST_CPUS, UNITS
from ullage.quantity import Quantity

# What machine-controller asks for where a machine does not say.
GCE_DISK: Final = 25
# Sizes that say what they are: `custom-4-8192`, `n2-custom-8-32768-ext`.
_CUSTOM: Final = re.compile(r"(?:[a-z][a-z0-9]{1,7}-)?custom-([1-9][0-9]{0,5})-([1-9][0-9]{0,11})(?:-ext)?")


def alibaba(machine: MachineConfig) -> Amounts:
    """machine-controller orders two disks of `diskSize`: the system's and one for data."""
    unit = UNITS["alibaba"].disk
    size = unit.of(machine.spec.digits("diskSize", least=1, most=unit.most))
    name = machine.spec.needed_text("instanceType", "an instance type")
    place = machine.place(region="regionID", secret="accessKeyID")
    return machine.amounts(place, name, CPU, MEMORY) + storage(size, size)


def aws(machine: MachineConfig) -> Amounts:
    disk = needed_size(machine.spec, "diskSize", UNITS["aws"].disk)
    name = machine.spec.needed_text("instanceType", "an instance type")
    return machine.amounts(machine.place(region="region", secret="accessKeyId"), name, CPU, MEMORY) + storage(disk)


def azure(machine: MachineConfig) -> Amounts:
    """A disk of 0 is none at all for data; for the system it is as large as the image."""
    unit = UNITS["azure"].disk
    system = machine.spec.number("osDiskSize", least=0, most=unit.most)
    data = machine.spec.number("dataDiskSize", least=0, most=unit.most)
    name = machine.spec.needed_text("vmSize", "a VM size")
    place = machine.place(region="location", secret="clientID")
    image = _azure_image(machine) if not system else ""
    size = machine.amounts(place, name, CPU, MEMORY) + storage(unit.of(data or 0))
    if system:
        return size + storage(unit.of(system))
    return size + machine.amounts(place, image, STORAGE, hint="write osDiskSize")


def digitalocean(machine: MachineConfig) -> Amounts:
    """Sizes are the same in all regions."""
    name = machine.spec.needed_text("size", "a size")
    return machine.amounts(machine.place(secret="token"), name, CPU, MEMORY, STORAGE)


def equinixmetal(machine: MachineConfig) -> Amounts:
    """Plans are the same everywhere."""
    name = machine.spec.needed_text("instanceType", "a plan")
    return machine.amounts(machine.place(secret="token"), name, CPU, MEMORY, STORAGE)


def gce(machine: MachineConfig) -> Amounts:
    units = UNITS["gce"]
    disk = units.disk.of(machine.spec.number("diskSize", least=0, most=units.disk.most) or GCE_DISK)
    name = machine.spec.needed_text("machineType", "a machine type")
    place = machine.place(region="zone", secret="serviceAccount")
    custom = _CUSTOM.fullmatch(name)
    if custom is None:
        return machine.amounts(place, name, CPU, MEMORY) + storage(disk)
    cpus = int(custom[1])
    if cpus > MOST_CPUS:
        raise BadInput(machine.spec.at("machineType"), shown(name), f"at most {MOST_CPUS} vCPUs are allowed")
    return Amounts({CPU: Quantity.of(cpus), MEMORY: units.memory.of(int(custom[2]))}) + storage(disk)


def hetzner(machine: MachineConfig) -> Amounts:
    """Server types are the same in all locations."""
    name = machine.spec.needed_text("serverType", "a server type")
    return machine.amounts(machine.place(secret="token"), name, CPU, MEMORY, STORAGE)


def openstack(machine: MachineConfig) -> Amounts:
    """A root disk of the machine's own takes the place of the flavour's."""
    unit = UNITS["openstack"].disk
    root = machine.spec.number("rootDiskSizeGB", least=1, most=unit.most)
    name = machine.spec.needed_text("flavor", "a flavor")
    place = machine.place(region="region", secret=_openstack_secret(machine.spec), endpoint="identityEndpoint")
    if root is None:
        return machine.amounts(place, name, CPU, MEMORY, STORAGE, hint="rootDiskSizeGB sets the disk's size")
    return machine.amounts(place, name, CPU, MEMORY) + storage(unit.of(root))


def _openstack_secret(spec: Fields) -> str:
    """The field that holds the secret: machines come with a user or with an application credential."""
    return "applicationCredentialSecret" if spec.get("applicationCredentialSecret") is not None else "password"


def _azure_image(machine: MachineConfig) -> str:
    """The name by which an image is looked up: its id, or where it is in the gallery, or whatever is usual for the system."""
    if given := machine.spec.text("imageID"):
        return f"image {given}"
    gallery = machine.spec.part("imageReference")
    named = [gallery.text(part) for part in ("publisher", "offer", "sku", "version")]
    return f"image {'/'.join(named)}" if any(named) else f"image {machine.operating_system}"
