"""What a virtual machine costs: the limits of the pod that runs it, which are more than what its guest is given.

The pod's memory is the guest's, and besides: the processes around it, 8Mi for each vCPU, 8Mi for its IO thread, page tables (a
512th of the memory), and what qemu itself needs beyond the guest. The numbers move with KubeVirt's versions, so there is a
table for each; which one holds is a setting. The default is that of the design that the reserve for migrations comes from.

Pure. Everything is counted in bytes and in thousandths of a CPU, and nothing is rounded down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ullage.errors import BadInput
from ullage.quantity import Quantity, QuantityError
from ullage.vms.launcher.containers import Part

MI: Final = 1 << 20
GI: Final = 1 << 30
MOST: Final = 2**63 - 1  # bytes, or CPUs: other readers of a cost have 64 bits for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What one version of KubeVirt adds to the memory of a guest, in bytes."""

    fixed: int  # all processes that run beside the guest
    vcpu: int = 8 * MI  # for each
    io_thread: int = 8 * MI
    page_tables: int = 512  # one byte for so many of the memory
    reserve: int = 0  # that a limit has to have beyond the guest's memory
    video: int = 0  # where there is a screen, which is the default
    arm64: int = 0
    passthrough: int = 0  # devices of the host
    tpm: int = 0
    sev: int = 0
    dedicated_cpus: int = 0
    ratio: tuple[int, int] = (1, 1)  # by which all of this is multiplied: `additionalGuestMemoryOverheadRatio`


SEED: Final = Overhead(fixed=180 * MI, reserve=100 * MI)
_LATER: Final = Overhead(
    fixed=210 * MI, video=16 * MI, arm64=128 * MI, passthrough=GI, sev=256 * MI, tpm=53 * MI, dedicated_cpus=100 * MI
)
TABLES: Final[Mapping[str, Overhead]] = {
    "seed": SEED,
    "v0.54": Overhead(fixed=180 * MI, video=16 * MI, passthrough=GI),
    "v1.1": _LATER,
    "v1.4": replace(_LATER, fixed=220 * MI, video=32 * MI),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a VM takes of its namespace's limits."""

    cpu: int  # thousandths
    memory: int  # bytes
    parts: tuple[Part, ...] = field(default=(), compare=False)


def cost_of(spec: Mapping[str, Any], table: Overhead = SEED) -> Cost:
    """`spec` is that of a VirtualMachineInstance, or of a VirtualMachine's template. Raises BadInput, which names the field."""
    domain = _map(spec, "domain")
    limit, guest = _memory_limit(domain), _amount(domain, "memory", "guest")
    vcpus = vcpus_of(domain)
    parts = [
        Part("memory", max(limit, (guest if guest is not None else limit) + table.reserve)),
        Part("processes beside the guest", table.fixed),
        Part(f"{vcpus} vCPU{'' if vcpus == 1 else 's'}", table.vcpu * vcpus),
        Part("IO thread", table.io_thread),
        Part("page tables", -(-limit // table.page_tables)),
        *_devices(domain, spec, table),
    ]
    first, *added = parts
    scaled = (Part(one.name, _times(one.memory, table.ratio)) for one in added)
    listed = (first, *(one for one in scaled if one.memory))
    return Cost(cpu=_cpu_limit(domain, vcpus), memory=sum(one.memory for one in listed), parts=listed)


def asked_of(spec: Mapping[str, Any]) -> Cost:
    """What its owner asks for: its limits, without what comes on top. `spec` is as above. Raises BadInput."""
    domain = _map(spec, "domain")
    return Cost(cpu=_cpu_limit(domain, vcpus_of(domain)), memory=_memory_limit(domain))


def vcpus_of(domain: Mapping[str, Any]) -> int:
    """As KubeVirt counts them: the topology, or else the CPUs that are asked for, rounded up; at least one."""
    cpu = _map(domain, "cpu")
    said = [cpu[key] for key in ("cores", "sockets", "threads") if isinstance(cpu.get(key), int) and cpu[key] > 0]
    if said:
        product = 1
        for one in said:
            product *= one
        return product
    for side in ("requests", "limits"):
        asked = _amount(domain, "resources", side, "cpu", milli=True)
        if asked:
            return max(1, -(-asked // 1000))
    return 1


def _cpu_limit(domain: Mapping[str, Any], vcpus: int) -> int:
    """Its limit; where it has none, what it asks for, and at last its vCPUs: it may use that much. A limit of 0 limits
    nothing on a node."""
    for side in ("limits", "requests"):
        found = _amount(domain, "resources", side, "cpu", milli=True)
        if found:
            return found
    return vcpus * 1000


def _memory_limit(domain: Mapping[str, Any]) -> int:
    """In the same way."""
    for path in (("resources", "limits", "memory"), ("resources", "requests", "memory"), ("memory", "guest")):
        found = _amount(domain, *path)
        if found:
            return found
    return 0


def _devices(domain: Mapping[str, Any], spec: Mapping[str, Any], table: Overhead) -> list[Part]:
    devices = _map(domain, "devices")
    on_host = any(devices.get(key) for key in ("hostDevices", "gpus")) or any(
        "sriov" in one for one in devices.get("interfaces") or () if isinstance(one, dict)
    )
    found = [
        ("screen", table.video, devices.get("autoattachGraphicsDevice") is not False),
        ("devices of the host", table.passthrough, on_host),
        ("TPM", table.tpm, devices.get("tpm") is not None),
        ("encrypted memory", table.sev, _map(domain, "launchSecurity").get("sev") is not None),
        ("CPUs of its own", table.dedicated_cpus, bool(_map(domain, "cpu").get("dedicatedCpuPlacement"))),
        ("arm64", table.arm64, spec.get("architecture") == "arm64"),
    ]
    return [Part(name, memory) for name, memory, has in found if has]


def _times(amount: int, ratio: tuple[int, int]) -> int:
    return -(-amount * ratio[0] // ratio[1])


def _map(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = holder.get(key)
    return found if isinstance(found, Mapping) else {}


def _amount(domain: Mapping[str, Any], *path: str, milli: bool = False) -> int | None:
    holder = domain
    for key in path[:-1]:
        holder = _map(holder, key)
    text = holder.get(path[-1])
    if text is None:
        return None
    where = ".".join(("spec.template.spec.domain", *path))
    try:
        quantity = Quantity.parse(str(text))
    except QuantityError as error:
        raise BadInput(where, str(text), str(error)) from error
    if quantity.sign < 0:
        raise BadInput(where, str(text), "an amount is not negative")
    if quantity.value() > MOST:
        raise BadInput(where, f"{str(text)[:40]!r}", f"an amount is no more than {MOST}")
    return quantity.milli() if milli else quantity.value()
