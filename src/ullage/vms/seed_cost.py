"""The formula of the design that the reserve for migrations comes from: what it charges for a VM. Pure.

No version of KubeVirt makes a pod of this size; `launcher` has the formula that agrees with KubeVirt. The memory is the limit,
of which 100Mi are kept from the guest, and besides: 180Mi for the processes around it, 8Mi for each vCPU, 8Mi for its IO
thread, and page tables, a 512th of the limit. Everything is counted in bytes and in thousandths of a CPU, rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ullage.vms.launcher.containers import Part
from ullage.vms.launcher.guest import amount, part
from ullage.vms.launcher.versions import MI

RESERVE: Final = 100 * MI  # that a limit has to have beyond the guest's memory
PROCESSES: Final = 180 * MI
VCPU: Final = 8 * MI  # for each
IO_THREAD: Final = 8 * MI
PAGE_TABLES: Final = 512  # one byte for so many of the memory


def seed_parts(spec: Mapping[str, Any]) -> tuple[Part, ...]:
    """The lines of which the cost is the sum. Raises BadInput, which names the field."""
    domain = part(spec, "domain")
    limit, guest = memory_limit(domain), amount(domain, "memory", "guest")
    vcpus = vcpus_of(domain)
    return (
        Part("memory", max(limit, (guest if guest is not None else limit) + RESERVE), cpu_limit(domain)),
        Part("processes beside the guest", PROCESSES),
        Part(f"{vcpus} vCPU{'' if vcpus == 1 else 's'}", VCPU * vcpus),
        Part("IO thread", IO_THREAD),
        *([Part("page tables", -(-limit // PAGE_TABLES))] if limit else []),
    )


def vcpus_of(domain: Mapping[str, Any]) -> int:
    """The topology; without one the CPUs of the request, or of the limit, rounded up; at least one."""
    cpu = part(domain, "cpu")
    given = [cpu[key] for key in ("cores", "sockets", "threads") if isinstance(cpu.get(key), int) and cpu[key] > 0]
    if given:
        product = 1
        for count in given:
            product *= count
        return product
    for side in ("requests", "limits"):
        found = amount(domain, "resources", side, "cpu", milli=True)
        if found:
            return max(1, -(-found // 1000))
    return 1


def cpu_limit(domain: Mapping[str, Any]) -> int:
    """The limit, in thousandths; without one the request, and without that the vCPUs: it may use that much. A limit of 0
    limits nothing on a node."""
    for side in ("limits", "requests"):
        found = amount(domain, "resources", side, "cpu", milli=True)
        if found:
            return found
    return vcpus_of(domain) * 1000


def memory_limit(domain: Mapping[str, Any]) -> int:
    """The limit; without one the request, and without that the memory of the guest."""
    for path in (("resources", "limits", "memory"), ("resources", "requests", "memory"), ("memory", "guest")):
        found = amount(domain, *path)
        if found:
            return found
    return 0
