"""The container `compute` of a launcher pod: the guest, and all that runs around it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ullage.pods.resources import Amounts, summed
from ullage.quantity import ZERO, Format, Quantity
from ullage.vms.launcher.containers import Container, Part, bytes_in, thousandths_in
from ullage.vms.launcher.guest import Guest, maps, part
from ullage.vms.launcher.settings import Binding, ClusterSettings, NamespaceRules, Support
from ullage.vms.launcher.versions import MI, Numbers

COMPUTE: Final = "compute"

_PROBE: Final = 10 * MI  # for each probe that runs a command
_PROBES: Final = 100 * MI  # once, where there are any
_DOWNWARD_METRICS: Final = MI
_STORAGE: Final = Quantity.of(50 * 10**6)
_SIZED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


@dataclass(frozen=True, slots=True)
class Compute:
    container: Container
    overhead: int
    """The bytes that the container takes beyond the memory of the guest."""
    most: Amounts
    """What the container may use of CPU and memory where it has no limit."""
    parts: tuple[Part, ...]


def compute(guest: Guest, settings: ClusterSettings, rules: NamespaceRules) -> Compute:
    terms = tuple(one for one in _overhead(guest, settings) if one.memory)
    overhead = sum(one.memory for one in terms)
    cpu, cpus = _cpu(guest, settings, rules)
    memory, huge = _memory(guest, overhead, settings, rules)
    devices = summed({name: Quantity.of(1)} for name in _host_devices(guest))
    limits = {**_others(guest.limits), **devices, **huge, **cpu.limits, **memory.limits}
    requests = {**_others(guest.requests), **devices, **huge, **cpu.requests, **memory.requests}
    storage = _storage(guest)
    own = max(0, guest.requested_memory - sum(one.value() for one in huge.values()))
    most = {
        "cpu": max(Quantity.of(cpus), guest.requests.get("cpu", ZERO)),
        "memory": Quantity.of(own + overhead, Format.BINARY_SI),
    }
    return Compute(
        Container(COMPUTE, {**limits, **storage.limits}, {**requests, **storage.requests}),
        overhead,
        most,
        _parts(guest, terms, own=own, bound={**most, **limits}),
    )


def bindings_of(guest: Guest, settings: ClusterSettings) -> list[Binding]:
    """The network binding plugins that the VM uses: each runs once, for however many interfaces."""
    names = dict.fromkeys(part(one, "binding").get("name") for one in guest.interfaces)
    return [settings.bindings[name] for name in names if isinstance(name, str) and name in settings.bindings]


def _parts(guest: Guest, terms: tuple[Part, ...], *, own: int, bound: Amounts) -> tuple[Part, ...]:
    """The lines of which the limits of the container are the sum. `own`: the bytes of the guest that are no huge pages."""
    memory, overhead = bytes_in(bound, "memory"), sum(one.memory for one in terms)
    cpu = thousandths_in(bound)
    if "memory" in guest.limits or memory == own + overhead:
        return Part("guest", memory - overhead, cpu), *terms
    return Part("guest", own, cpu), *terms, Part("limit above the request", memory - own - overhead)


def _overhead(guest: Guest, settings: ClusterSettings) -> Iterator[Part]:
    """What runs around the guest. The ratio multiplies all of it but the plugins of the network."""
    terms = [Part(name, memory) for name, memory in _processes(guest, settings.numbers)]
    yield from terms
    before = sum(one.memory for one in terms)
    # What is added is worked out in thousands of bytes, and cut off, as KubeVirt does.
    more = int(-(-before // 1000) * (settings.overhead_ratio - 1.0)) * 1000
    yield Part(f"overhead ratio of {settings.overhead_ratio:g}", more)
    yield Part("network bindings", sum(one.memory for one in bindings_of(guest, settings)))


def _processes(guest: Guest, numbers: Numbers) -> Iterator[tuple[str, int]]:
    yield "processes beside the guest", numbers.processes
    yield f"{guest.vcpus} vCPU{'' if guest.vcpus == 1 else 's'}", numbers.vcpu * guest.vcpus
    yield "IO thread", numbers.io_thread
    yield "page tables", -(-guest.requested_memory // 1000) * 1000 // numbers.page_tables
    devices, volumes = guest.devices, maps(guest.spec.get("volumes"))
    yield "screen", numbers.screen if devices.get("autoattachGraphicsDevice") is not False else 0
    yield "arm64", numbers.arm64 if guest.architecture == "arm64" else 0
    sriov = any(one.get("sriov") is not None for one in guest.interfaces)
    on_host = bool(devices.get("hostDevices") or devices.get("gpus") or sriov)
    yield "devices of the host", numbers.host_devices if on_host else 0
    yield "encrypted memory", numbers.sev if part(guest.domain, "launchSecurity").get("sev") is not None else 0
    tpm = devices.get("tpm")
    off = isinstance(tpm, Mapping) and tpm.get("enabled") is False and numbers.tpm_switch
    yield "TPM", numbers.tpm if tpm is not None and not off else 0
    yield "guaranteed resources", numbers.guaranteed if guest.is_guaranteed else 0
    yield "passt", numbers.passt if any(one.get("passt") is not None for one in guest.interfaces) else 0
    probes = sum(part(guest.spec, name).get("exec") is not None for name in ("livenessProbe", "readinessProbe"))
    yield "probes", _PROBES + probes * _PROBE if probes else 0
    yield "downward metrics", _DOWNWARD_METRICS if any(one.get("downwardMetrics") is not None for one in volumes) else 0


def _cpu(guest: Guest, settings: ClusterSettings, rules: NamespaceRules) -> tuple[Support, int]:
    """Limit and request; and the CPUs that the VM may use."""
    domain, numbers = guest.domain, settings.numbers
    cpus = guest.vcpus
    pool = part(domain, "ioThreads").get("supplementalPoolThreadCount")
    if numbers.io_pool and domain.get("ioThreadsPolicy") == "supplementalPool" and type(pool) is int and pool > 0:
        cpus += pool
    if guest.is_pinned:
        if part(domain, "cpu").get("isolateEmulatorThread") is True:
            cpus += 1
        whole = {"cpu": Quantity.of(cpus)}
        return Support(whole, whole if numbers.pinned_requests or "cpu" in guest.requests else {}), cpus
    request = guest.requests.get("cpu") or Quantity(-(-cpus * 10**9 // settings.cpu_allocation_ratio))
    limit = guest.limits.get("cpu")
    asked = (rules.limits_cpu and _gives_limits(settings)) or settings.auto_cpu_limit.matches(rules.labels)
    if limit is None and asked:
        limit = Quantity.of(cpus)
    return Support({"cpu": limit} if limit is not None else {}, {"cpu": request}), cpus


def _memory(guest: Guest, overhead: int, settings: ClusterSettings, rules: NamespaceRules) -> tuple[Support, Amounts]:
    """Limit and request of memory, and the huge pages beside them. Of a guest in huge pages only the rest is memory."""
    request, limit = guest.requested_memory, bytes_in(guest.limits, "memory")
    has_limit, huge = "memory" in guest.limits, Amounts()
    if guest.page_size:
        pages = request if guest.memory is None else min(request, guest.memory)
        huge = {f"hugepages-{guest.page_size}": Quantity.of(pages, Format.BINARY_SI)}
        within = request if guest.memory is None else guest.memory
        request, limit = max(0, request - within), max(0, limit - within)
    free = part(guest.domain, "resources").get("overcommitGuestOverhead") is True and not guest.page_size
    request += 0 if free else overhead
    if has_limit:
        limit += overhead
    elif guest.is_pinned:
        limit = request
    elif rules.limits_memory and _gives_limits(settings):
        limit = int(request * rules.memory_ratio)
    limits = {"memory": Quantity.of(limit, Format.BINARY_SI)} if limit else {}
    return Support(limits, {"memory": Quantity.of(request, Format.BINARY_SI)}), huge


def _gives_limits(settings: ClusterSettings) -> bool:
    """Whether KubeVirt gives limits to VMs that have none, where a ResourceQuota asks for them."""
    mode = settings.numbers.auto_limits
    return mode == "always" or (mode == "gate" and settings.auto_limits_gate)


def _storage(guest: Guest) -> Support:
    limit, request = (side.get("ephemeral-storage") for side in (guest.limits, guest.requests))
    return Support(
        {"ephemeral-storage": limit + _STORAGE} if limit else {},
        {"ephemeral-storage": request + _STORAGE if request else _STORAGE},
    )


def _others(amounts: Amounts) -> Amounts:
    return {name: one for name, one in amounts.items() if name not in _SIZED}


def _host_devices(guest: Guest) -> Iterator[str]:
    for key in ("gpus", "hostDevices"):
        for one in maps(guest.devices.get(key)):
            name = one.get("deviceName")
            if isinstance(name, str) and name:
                yield name
