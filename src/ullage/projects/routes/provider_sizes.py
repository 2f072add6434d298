"""Sizes of machines in the words of each provider, as KKP's forms send them to `quotacalculation`. Pure.

Fields that say nothing about cpu, memory and disk (prices, names, regions) are not read. A number of MB or GB stands for Mi or
Gi, as in every number of this API. Nutanix and VMware Cloud Director have `cpus` sockets of `cpuCores` cores each, which is
what the seeds count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from ullage.errors import BadInput
from ullage.kube.kinds import Value
from ullage.ledger.amounts import Amounts
from ullage.projects.names import CPU, MEMORY, STORAGE
from ullage.projects.routes.numbers import MOST
from ullage.quantity import Format, Quantity, QuantityError

Number = int | float

MOST_DISKS: Final = 64
SHOWN: Final = 64  # characters of what cannot be used
_MIB, _GIB = 2**20 * 10**9, 2**30 * 10**9  # in nano-units
_CORE: Final = 10**9


class AlibabaSize(Value):
    """A type of Alibaba. The disk is `diskSizeGB`."""

    cpu_core_count: Number = 0
    """Processors."""
    memory_size: Number = 0
    """Memory in GB."""


class AnexiaDisk(Value):
    """A disk."""

    size: Number = 0
    """Its size in GB."""


class AnexiaSize(Value):
    """A machine of Anexia."""

    cpus: Number = 0
    """Processors."""
    memory: Number = 0
    """Memory in MB."""
    disk_size: Number | None = None
    """The disk in GB, in place of `disks`."""
    disks: tuple[AnexiaDisk, ...] = ()
    """All disks."""


class CpuMemorySize(Value):
    """A type of AWS, with memory in GB, or of Google, with memory in MB. The disk is `diskSizeGB`."""

    vcpus: Number = 0
    """Processors."""
    memory: Number = 0
    """Memory, in the unit of the provider."""


class AzureSize(Value):
    """A size of Azure."""

    number_of_cores: Number = 0
    """Processors."""
    memory_in_mb: Number = msgspec.field(default=0, name="memoryInMB")
    """Memory in MB."""
    os_disk_size_in_mb: Number = msgspec.field(default=0, name="osDiskSizeInMB")
    """The disk of the system in MB."""
    resource_disk_size_in_mb: Number = msgspec.field(default=0, name="resourceDiskSizeInMB")
    """The temporary disk in MB."""


class DropletSize(Value):
    """A size of DigitalOcean, or a flavour of OpenStack."""

    vcpus: Number = 0
    """Processors."""
    memory: Number = 0
    """Memory in MB."""
    disk: Number = 0
    """The disk in GB. With OpenStack `diskSizeGB` takes its place."""


class HetznerSize(Value):
    """A server type of Hetzner."""

    cores: Number = 0
    """Processors."""
    memory: Number = 0
    """Memory in GB."""
    disk: Number = 0
    """The disk in GB."""


class KubevirtDisk(Value):
    """A disk."""

    size: str = "0"
    """Its size as a quantity; a number alone is in GB."""


class KubevirtSize(Value):
    """A machine of KubeVirt."""

    cpus: str = "0"
    """Processors."""
    memory: str = "0"
    """Memory as a quantity."""
    primary_disk_size: str = "0"
    """The first disk as a quantity; a number alone is in GB."""
    secondary_disks: tuple[KubevirtDisk, ...] = ()
    """All other disks."""


class SocketSize(Value):
    """A machine of Nutanix."""

    cpus: Number = 0
    """Sockets."""
    cpu_cores: Number | None = None
    """Cores of each socket; 1 where it is absent."""
    memory_mb: Number = msgspec.field(default=0, name="memoryMB")
    """Memory in MB."""
    disk_size: Number | None = None
    """The disk in GB."""


class DirectorSize(Value):
    """A machine of VMware Cloud Director."""

    cpus: Number = 0
    """Sockets."""
    cpu_cores: Number | None = None
    """Cores of each socket; 1 where it is absent."""
    memory_mb: Number = msgspec.field(default=0, name="memoryMB")
    """Memory in MB."""
    disk_size_gb: Number | None = msgspec.field(default=None, name="diskSizeGB")
    """The disk in GB."""


class VsphereSize(Value):
    """A machine of vSphere."""

    cpus: Number = 0
    """Processors."""
    memory: Number = 0
    """Memory in MB."""
    disk_size_gb: Number | None = msgspec.field(default=None, name="diskSizeGB")
    """The disk in GB."""


class _Reader:
    """Amounts of one size; `field` is its path in what was sent."""

    def __init__(self, field: str, disk: Number) -> None:
        self._field = field
        self.disk = self._exact(disk, "diskSizeGB", _GIB, whole=True)  # what was given beside the size

    def cores(self, number: Number, name: str, times: Number | None = None) -> Quantity:
        first = self._exact(number, name, _CORE)
        return Quantity(first.nanos * self._exact(1 if times is None else times, "cpuCores", _CORE).nanos // _CORE)

    def mb(self, number: Number, name: str) -> Quantity:
        return self._exact(number, name, _MIB)

    def gb(self, number: Number, name: str) -> Quantity:
        return self._exact(number, name, _GIB)

    def text(self, text: str, name: str, *, alone: str = "") -> Quantity:
        """`alone` is the unit of a number without one."""
        try:
            found = Quantity.parse((text + alone if text.isdecimal() else text) if len(text) <= SHOWN else "")
        except QuantityError:
            raise BadInput(f"{self._field}.{name}", text[:SHOWN], "a quantity as 2, 1500m or 10Gi is allowed") from None
        if not 0 <= found.nanos <= MOST * _GIB:
            raise BadInput(f"{self._field}.{name}", text[:SHOWN], f"0 to {MOST}Gi is allowed")
        return found

    def _exact(self, number: Number, name: str, unit: int, *, whole: bool = False) -> Quantity:
        exact = Decimal(str(number))
        if not (exact.is_finite() and 0 <= exact <= MOST):
            path = f"{self._field.rpartition('.')[0]}.{name}".lstrip(".") if whole else f"{self._field}.{name}"
            raise BadInput(path, number, f"a number from 0 to {MOST} is allowed")
        return Quantity(int(exact * unit), Format.DECIMAL_SI if unit == _CORE else Format.BINARY_SI)


def _alibaba(size: AlibabaSize, read: _Reader) -> tuple[Quantity, Quantity, Quantity]:
    return read.cores(size.cpu_core_count, "cpuCoreCount"), read.gb(size.memory_size, "memorySize"), read.disk


def _anexia(size: AnexiaSize, read: _Reader) -> tuple[Quantity, Quantity, Quantity]:
    if size.disk_size is not None:
        disk = read.gb(size.disk_size, "diskSize")
    else:
        disk = _sum(size.disks, lambda one, at: read.gb(one.size, f"disks[{at}].size"))
    return read.cores(size.cpus, "cpus"), read.mb(size.memory, "memory"), disk


def _aws(size: CpuMemorySize, read: _Reader) -> tuple[Quantity, Quantity, Quantity]:
    return read.cores(size.vcpus, "vcpus"), read.gb(size.memory, "memory"), read.disk


def _google(size: CpuMemorySize, read: _Reader) -> tuple[Quantity, Quantity, Quantity]:
    return read.cores(size.vcpus, "vcpus"), read.mb(size.memory, "memory"), read.disk


def _azure(size: AzureSize, read: _Reader) -> tuple[Quantity, Quantity, Quantity]:
    disk = read.mb(size.os_disk_size_in_mb, "osDiskSizeInMB") + read.mb(size.resource_disk_size_in_mb, "resourceDiskSizeInMB")
    return read.cores(size.number_of_cores, "numberOfCores"), read.mb(size.memory_in_mb, "memoryInMB"), disk


def _droplet(size: DropletSize, read: _Reader) -> tuple[Quantity, Quantity, Quantity]:
    return read.cores(size.vcpus, "vcpus"), read.mb(size.memory, "memory"), read.gb(size.disk, "disk")


def _openstack(size: DropletSize, read: _Reader) -> tuple[Quantity, Quantity, Quantity]:
    cpu, memory, disk = _droplet(size, read)
    return cpu, memory, read.disk if read.disk.nanos else disk


def _hetzner(size: HetznerSize, read: _Reader) -> tuple[Quantity, Quantity, Quantity]:
    return read.cores(size.cores, "cores"), read.gb(size.memory, "memory"), read.gb(size.disk, "disk")


def _kubevirt(size: KubevirtSize, read: _Reader) -> tuple[Quantity, Quantity, Quantity]:
    first = read.text(size.primary_disk_size, "primaryDiskSize", alone="Gi")
    others = _sum(size.secondary_disks, lambda one, at: read.text(one.size, f"secondaryDisks[{at}].size", alone="Gi"))
    return read.text(size.cpus, "cpus"), read.text(size.memory, "memory"), first + others


def _nutanix(size: SocketSize, read: _Reader) -> tuple[Quantity, Quantity, Quantity]:
    disk = read.gb(size.disk_size or 0, "diskSize")
    return read.cores(size.cpus, "cpus", size.cpu_cores), read.mb(size.memory_mb, "memoryMB"), disk


def _director(size: DirectorSize, read: _Reader) -> tuple[Quantity, Quantity, Quantity]:
    disk = read.gb(size.disk_size_gb or 0, "diskSizeGB")
    return read.cores(size.cpus, "cpus", size.cpu_cores), read.mb(size.memory_mb, "memoryMB"), disk


def _vsphere(size: VsphereSize, read: _Reader) -> tuple[Quantity, Quantity, Quantity]:
    return read.cores(size.cpus, "cpus"), read.mb(size.memory, "memory"), read.gb(size.disk_size_gb or 0, "diskSizeGB")


def _sum(disks: tuple[Any, ...], size: Callable[[Any, int], Quantity]) -> Quantity:
    if len(disks) > MOST_DISKS:
        raise BadInput("disks", len(disks), f"{MOST_DISKS} disks at most are allowed")
    return sum((size(one, at) for at, one in enumerate(disks)), Quantity(0, Format.BINARY_SI))


# By field of what is sent.
PROVIDERS: Final[Mapping[str, Callable[[Any, _Reader], tuple[Quantity, Quantity, Quantity]]]] = {
    "alibabaInstanceType": _alibaba,
    "anexiaNodeSpec": _anexia,
    "awsSize": _aws,
    "azureSize": _azure,
    "doSize": _droplet,
    "gcpSize": _google,
    "hetznerSize": _hetzner,
    "kubevirtNodeSize": _kubevirt,
    "nutanixNodeSpec": _nutanix,
    "openstackSize": _openstack,
    "vmDirectorNodeSpec": _director,
    "vSphereNodeSpec": _vsphere,
}


def provider_size(name: str, size: Value, *, disk: Number, field: str = "") -> Amounts:
    """What one machine takes. `name` is that of the field below `field`, and `disk` is `diskSizeGB`. Raises BadInput, which
    names the field."""
    cpu, memory, storage = PROVIDERS[name](size, _Reader(f"{field}{name}", disk))
    return Amounts({CPU: cpu, MEMORY: memory, STORAGE: storage})
