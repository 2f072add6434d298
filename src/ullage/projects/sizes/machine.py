"""What one machine costs: the amounts of a Machine's `spec.providerSpec.value`, as machine-controller has it.

There are three answers. Amounts: it costs that much. Unknown: nobody can tell now; it says why, and which look-up would tell.
BadInput: no machine can be made of it, whatever is looked up; it names the field.

Pure, and quick whatever is in the spec: this runs inside admission, on what a tenant wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from ullage.errors import BadInput
from ullage.ledger.amounts import Amounts
from ullage.projects.sizes.catalogue import Catalogue
from ullage.projects.sizes.fields import Fields, Hidden, needed_size, shown
from ullage.projects.sizes.lookups import ANYWHERE, CPU, MEMORY, STORAGE, MachineConfig, NotKnown, Site, Unknown, storage
from ullage.projects.sizes.units import MOST_BYTES, MOST_CPU, MOST_CPUS, UNITS
from ullage.quantity import Quantity

# Providers whose machines say how large they are: KubeVirt, Nutanix, vSphere, and machines that nobody makes (`fake`).
# What a machine leaves to something else, as to an instance type or to the disk of a template, is looked up like a
# flavour.


MOST_DISKS: Final = 64  # beside the first one


def fake(machine: MachineConfig) -> Amounts:
    """Three quantities, and nothing behind them: for tests, and for machines that are made elsewhere."""
    return Amounts(
        {
            CPU: machine.spec.quantity("cpu", most=MOST_CPU, zero=True),
            MEMORY: machine.spec.quantity("memory", most=MOST_BYTES, zero=True),
            STORAGE: machine.spec.quantity("storage", most=MOST_BYTES, zero=True),
        }
    )


def kubevirt(machine: MachineConfig) -> Amounts:
    """Disks are the template's. cpu and memory are the instance type's where there is one, whatever the template says."""
    virtual = machine.spec.part("virtualMachine")
    template = virtual.part("template")
    disks = [template.part("primaryDisk"), *template.parts("secondaryDisks", most=MOST_DISKS)]
    size = storage(*(disk.quantity("size", most=MOST_BYTES) for disk in disks))
    if virtual.get("instancetype") is None:
        memory = template.quantity("memory", most=MOST_BYTES)
        return size + Amounts({CPU: _template_cpus(template), MEMORY: memory})
    name = virtual.part("instancetype").needed_text("name", "the name of an instance type")
    return size + machine.amounts(machine.place(), name, CPU, MEMORY)


def nutanix(machine: MachineConfig) -> Amounts:
    """`cpus` sockets of `cpuCores` cores each."""
    units = UNITS["nutanix"]
    sockets = machine.spec.needed_number("cpus", least=1, most=MOST_CPUS)
    cores = machine.spec.number("cpuCores", least=1, most=MOST_CPUS) or 1
    memory = needed_size(machine.spec, "memoryMB", units.memory)
    size = Amounts({CPU: Quantity.of(sockets * cores), MEMORY: memory})
    disk = machine.spec.number("diskSize", least=1, most=units.disk.most)
    if disk is not None:
        return size + storage(units.disk.of(disk))
    image = machine.spec.needed_text("imageName", "an image")
    return size + machine.amounts(machine.place(), f"image {image}", STORAGE, hint="write diskSize")


def vsphere(machine: MachineConfig) -> Amounts:
    units = UNITS["vsphere"]
    cpus = machine.spec.needed_number("cpus", least=1, most=MOST_CPUS)
    memory = needed_size(machine.spec, "memoryMB", units.memory)
    size = Amounts({CPU: Quantity.of(cpus), MEMORY: memory})
    disk = machine.spec.number("diskSizeGB", least=1, most=units.disk.most)
    if disk is not None:
        return size + storage(units.disk.of(disk))
    template = machine.spec.needed_text("templateVMName", "a template")
    return size + machine.amounts(machine.place(), f"template {template}", STORAGE, hint="write diskSizeGB")


def _template_cpus(template: Fields) -> Quantity:
    """vCPUs go before CPUs."""
    cores = template.part("vcpus").number("cores", least=0, most=MOST_CPUS)
    return Quantity.of(cores) if cores else template.quantity("cpus", most=MOST_CPU)


# Providers whose machines name a flavour: cpu and memory are looked up, disks are the flavour's or the machine's own.
# Names of fields are those of machine-controller's provider specs. What its provider would refuse is refused here, too,
# since a size could not be told of it.


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


FIELD: Final = "spec.providerSpec.value"

# By machine-controller's names. A machine of any other is of unknown size.
READERS: Final[Mapping[str, Callable[[MachineConfig], Amounts]]] = {
    "alibaba": alibaba,
    "aws": aws,
    "azure": azure,
    "digitalocean": digitalocean,
    "equinixmetal": equinixmetal,
    "external": fake,
    "fake": fake,
    "gce": gce,
    "hetzner": hetzner,
    "kubevirt": kubevirt,
    "nutanix": nutanix,
    "openstack": openstack,
    "vsphere": vsphere,
}
# The name that Equinix had when it was another company.
_RENAMED: Final = {"packet": "equinixmetal"}


def size_of(provider_spec: object, catalogue: Catalogue, *, site: Site = ANYWHERE) -> Amounts | Unknown:
    """cpu, memory and storage. `site` is where the cluster's machines are made. Raises BadInput, which names the field."""
    config = Fields(provider_spec, FIELD)
    try:
        named = config.needed_text("cloudProvider", "a provider")
        provider = _RENAMED.get(named, named)
        reader = READERS.get(provider)
        if reader is None:
            return Unknown(f"Provider {shown(named)} not supported")
        return reader(
            MachineConfig(
                provider=provider,
                spec=config.part("cloudProviderSpec"),
                operating_system=config.text("operatingSystem"),
                catalogue=catalogue,
                site=site,
            )
        )
    except Hidden as error:
        return Unknown(str(error))
    except NotKnown as error:
        return error.unknown
