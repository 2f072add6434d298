"""The template of a VM, with what its instance type and its preference add to it, as KubeVirt adds it. Pure.

Written are only the fields that size the pod. A template that says what an instance type says too is refused by KubeVirt; here
the instance type stands.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ullage.errors import BadInput
from ullage.kube.objects import Json
from ullage.quantity import Quantity, QuantityError
from ullage.vms.api.instance_types import InstanceTypeSpec, PreferenceSpec

INSTANCE_TYPE: Final = "spec.instancetype"
PREFERENCE: Final = "spec.preference"

_MOST_VCPUS: Final = 2**32 - 1
_MOST_BYTES: Final = 2**63 - 1
_THREADS: Final = 2  # of a core, where vCPUs are spread over threads, too
_SOCKETS: Final = frozenset({"sockets", "preferSockets", "any", "preferAny"})
_CORES: Final = frozenset({"cores", "preferCores"})
_THREADED: Final = frozenset({"threads", "preferThreads"})
_SPREAD: Final = frozenset({"spread", "preferSpread"})


def expanded(machine: Mapping[str, Any], kind: InstanceTypeSpec | None, preference: PreferenceSpec | None) -> Json:
    """The body of a VirtualMachine whose template has all that it will run with. Raises BadInput, which names the field that
    refers to what cannot be."""
    spec = dict(_part(machine, "spec"))
    template = dict(_part(spec, "template"))
    guest, meta = dict(_part(template, "spec")), dict(_part(template, "metadata"))
    domain = dict(_part(guest, "domain"))
    annotations = dict(_part(meta, "annotations"))
    if kind is not None:
        domain |= dict(_typed(domain, kind, preference))
        annotations |= kind.annotations
    if preference is not None:
        domain["devices"] = {**_preferred(preference), **_part(domain, "devices")}
        annotations = {**preference.annotations, **annotations}
    guest["domain"] = domain
    template |= {"spec": guest, "metadata": {**meta, "annotations": annotations}}
    return {**machine, "spec": {**spec, "template": template}}


def _typed(domain: Mapping[str, Any], kind: InstanceTypeSpec, preference: PreferenceSpec | None) -> Iterator[tuple[str, Any]]:
    given = kind.cpu
    cpu = {
        "model": given.model,
        "dedicatedCpuPlacement": given.dedicated_cpu_placement,
        "isolateEmulatorThread": given.isolate_emulator_thread,
        "maxSockets": given.max_sockets,
    }
    yield "cpu", {**_part(domain, "cpu"), **_said(cpu), **topology(given.guest, preference)}
    memory = {"guest": kind.memory.guest, "maxGuest": kind.memory.max_guest, "hugepages": kind.memory.hugepages}
    yield "memory", _said(memory)
    yield "resources", _resources(domain, kind)
    devices = {"gpus": list(kind.gpus) or None, "hostDevices": list(kind.host_devices) or None}
    yield "devices", {**_part(domain, "devices"), **_said(devices)}
    if kind.io_threads_policy is not None:
        yield "ioThreadsPolicy", kind.io_threads_policy
    if kind.launch_security is not None:
        yield "launchSecurity", kind.launch_security


def _resources(domain: Mapping[str, Any], kind: InstanceTypeSpec) -> Json:
    """CPU and memory are those of the instance type alone."""
    resources = dict(_part(domain, "resources"))
    for side in ("limits", "requests"):
        if side in resources:
            resources[side] = {name: one for name, one in _part(resources, side).items() if name not in ("cpu", "memory")}
    size = _bytes(kind.memory.guest)
    percent = kind.memory.overcommit_percent
    if not 0 <= percent <= 100:
        raise BadInput(INSTANCE_TYPE, "memory.overcommitPercent", f"{percent} is no percentage: 0 to 100 is allowed")
    if percent:
        resources["requests"] = {**_part(resources, "requests"), "memory": str(_overcommitted(size, percent))}
    return resources


def topology(vcpus: int, preference: PreferenceSpec | None) -> Json:
    """The sockets, cores and threads of so many vCPUs. Raises BadInput where they cannot be spread evenly."""
    if not 1 <= vcpus <= _MOST_VCPUS:
        raise BadInput(INSTANCE_TYPE, "cpu.guest", f"{vcpus} vCPUs: 1 to {_MOST_VCPUS} are allowed")
    made = {"sockets": 1, "cores": 1, "threads": 1}
    preferred = preference.cpu if preference is not None else None
    wanted = (preferred.preferred_cpu_topology if preferred is not None else None) or "sockets"
    if vcpus == 1:
        return made
    if wanted in _SOCKETS:
        return {**made, "sockets": vcpus}
    if wanted in _CORES:
        return {**made, "cores": vcpus}
    if wanted in _THREADED:
        return {**made, "threads": vcpus}
    if wanted in _SPREAD and preference is not None:
        return {**made, **_spread(vcpus, preference)}
    shown = "sockets, cores, threads, spread or any"
    raise BadInput(PREFERENCE, "cpu.preferredCPUTopology", f"{wanted!r} is not known: {shown} is allowed")


def _spread(vcpus: int, preference: PreferenceSpec) -> Json:
    options = preference.cpu.spread_options if preference.cpu is not None else None
    ratio = preference.prefer_spread_socket_to_core_ratio or 2
    across = "SocketsCores"
    if options is not None:
        ratio = ratio if options.ratio is None else options.ratio
        across = options.across or across
    if ratio < 1:
        raise BadInput(PREFERENCE, "cpu.spreadOptions.ratio", f"{ratio} is allowed nowhere: 1 or more is")
    shapes = {
        "SocketsCores": (ratio, {"sockets": vcpus // ratio, "cores": ratio}),
        "CoresThreads": (ratio, {"cores": vcpus // ratio, "threads": ratio}),
        "SocketsCoresThreads": (
            _THREADS * ratio,
            {"sockets": vcpus // _THREADS // ratio, "cores": ratio, "threads": _THREADS},
        ),
    }
    if across not in shapes:
        raise BadInput(PREFERENCE, "cpu.spreadOptions.across", f"{across!r} is not known: {', '.join(shapes)} are allowed")
    divisor, shape = shapes[across]
    if vcpus % divisor:
        raise BadInput(PREFERENCE, "cpu.spreadOptions", f"{vcpus} vCPUs cannot be divided by {divisor}")
    return shape


def _preferred(preference: PreferenceSpec) -> Json:
    found = preference.devices
    if found is None:
        return {}
    devices = {
        "autoattachGraphicsDevice": found.preferred_autoattach_graphics_device,
        "autoattachSerialConsole": found.preferred_autoattach_serial_console,
        "tpm": found.preferred_tpm,
    }
    return _said(devices)


def _bytes(amount: str | int) -> int:
    try:
        size = Quantity.parse(str(amount)).value()
    except QuantityError as error:
        raise BadInput(INSTANCE_TYPE, "memory.guest", f"{str(amount)[:40]!r}: {error}") from error
    if not 0 < size <= _MOST_BYTES:
        raise BadInput(INSTANCE_TYPE, "memory.guest", f"{str(amount)[:40]!r}: 1 to {_MOST_BYTES} bytes are allowed")
    return size


def _overcommitted(size: int, percent: int) -> int:
    """KubeVirt works it out in floating-point numbers of 32 bits."""
    return int(_single(_single(size) * _single(1 - _single(percent / 100))))


def _single(value: float) -> float:
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


def _said(values: Mapping[str, Any]) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _part(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = body.get(name)
    return found if isinstance(found, Mapping) else {}
