"""Instance types and preferences of `instancetype.kubevirt.io/v1beta1`, and the revisions in which KubeVirt keeps them.

They belong to KubeVirt, as machines do: see `machines`. Read is what sizes the pod of a VM; the rest is kept and never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ullage.kube.kinds import AGE, Kind, Object, Value

GROUP: Final = "instancetype.kubevirt.io"
VERSION: Final = "v1beta1"

# --- instance types --------------------------------------------------------------------------------------------------


class InstanceTypeCpu(Value):
    """The CPUs of a VM."""

    guest: int = 0
    """How many vCPUs the guest has."""
    model: str | None = None
    """The model that the guest sees."""
    dedicated_cpu_placement: bool | None = msgspec.field(default=None, name="dedicatedCPUPlacement")
    """Whether the VM has CPUs of its own."""
    isolate_emulator_thread: bool | None = None
    """Whether the emulator has one more CPU of its own."""
    max_sockets: int | None = None
    """How many sockets the VM may be given while it runs."""


class InstanceTypeMemory(Value):
    """The memory of a VM."""

    guest: str | int = 0
    """The memory of the guest."""
    hugepages: Mapping[str, Any] | None = None
    """The size of the huge pages that back the memory."""
    overcommit_percent: int = 0
    """By how many per cent the pod asks for less than the guest has."""
    max_guest: str | int | None = None
    """How much memory the VM may be given while it runs."""


class InstanceTypeSpec(Value):
    """What a VM of this type has. CPU and memory are required."""

    cpu: InstanceTypeCpu = InstanceTypeCpu()
    """The CPUs of a VM."""
    memory: InstanceTypeMemory = InstanceTypeMemory()
    """The memory of a VM."""
    gpus: tuple[Mapping[str, Any], ...] = ()
    """GPUs of the host."""
    host_devices: tuple[Mapping[str, Any], ...] = ()
    """Devices of the host."""
    io_threads_policy: str | None = None
    """How IO threads are shared among disks."""
    launch_security: Mapping[str, Any] | None = None
    """How the memory of the guest is encrypted."""
    annotations: Mapping[str, str] = {}
    """Annotations of the VM's instance."""


class InstanceType(Object):
    """The CPU, the memory and the devices that VMs of one type have."""

    spec: InstanceTypeSpec = InstanceTypeSpec()
    """What a VM of this type has."""


# --- preferences -----------------------------------------------------------------------------------------------------


class SpreadOptions(Value):
    """How vCPUs are spread over a topology."""

    across: str | None = None
    """SocketsCores, SocketsCoresThreads or CoresThreads."""
    ratio: int | None = None
    """How many vCPUs the inner level has for one of the outer; 2 where nothing is said."""


class CpuPreferences(Value):
    """Preferences about CPUs."""

    preferred_cpu_topology: str | None = msgspec.field(default=None, name="preferredCPUTopology")
    """sockets, cores, threads, spread or any."""
    spread_options: SpreadOptions | None = None
    """How vCPUs are spread over a topology."""


class DevicePreferences(Value):
    """Preferences about devices, for VMs that do not say."""

    preferred_autoattach_graphics_device: bool | None = None
    """Whether the VM has a screen."""
    preferred_autoattach_serial_console: bool | None = None
    """Whether the VM has a serial console."""
    preferred_tpm: Mapping[str, Any] | None = msgspec.field(default=None, name="preferredTPM")
    """The TPM of the VM."""


class PreferenceSpec(Value):
    """What VMs get that do not say otherwise."""

    cpu: CpuPreferences | None = None
    """Preferences about CPUs."""
    devices: DevicePreferences | None = None
    """Preferences about devices."""
    annotations: Mapping[str, str] = {}
    """Annotations of the VM's instance."""
    prefer_spread_socket_to_core_ratio: int = 0
    """How many cores a socket has where vCPUs are spread."""


class Preference(Object):
    """What VMs with one guest system get where they do not say otherwise."""

    spec: PreferenceSpec = PreferenceSpec()
    """What VMs get that do not say otherwise."""


# --- where they live -------------------------------------------------------------------------------------------------


def _kind(name: str, kind_of: type[Any], *short_names: str, namespaced: bool = True) -> Kind[Any]:
    return Kind(
        GROUP,
        VERSION,
        name,
        f"{name.lower()}s",
        kind_of,
        namespaced=namespaced,
        whole=False,
        status=False,
        short_names=short_names,
        categories=("all",) if namespaced else (),
        columns=(AGE,),
    )


INSTANCE_TYPES: Final[Kind[InstanceType]] = _kind(
    "VirtualMachineInstancetype", InstanceType, "vminstancetype", "vminstancetypes", "vmf", "vmfs"
)
CLUSTER_INSTANCE_TYPES: Final[Kind[InstanceType]] = _kind(
    "VirtualMachineClusterInstancetype",
    InstanceType,
    "vmclusterinstancetype",
    "vmclusterinstancetypes",
    "vmcf",
    "vmcfs",
    namespaced=False,
)
PREFERENCES: Final[Kind[Preference]] = _kind("VirtualMachinePreference", Preference, "vmpref", "vmprefs", "vmp", "vmps")
CLUSTER_PREFERENCES: Final[Kind[Preference]] = _kind(
    "VirtualMachineClusterPreference", Preference, "vmcp", "vmcps", namespaced=False
)
TYPE_KINDS: Final[tuple[Kind[Any], ...]] = (INSTANCE_TYPES, CLUSTER_INSTANCE_TYPES, PREFERENCES, CLUSTER_PREFERENCES)
