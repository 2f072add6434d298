"""The spec of a VM, with the defaults that KubeVirt's webhook writes into it. Pure.

The shape of foreign objects is not checked before; what cannot be read as an amount is refused with its field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ullage.errors import BadInput
from ullage.pods.resources import Amounts, Side
from ullage.quantity import Format, Quantity, QuantityError
from ullage.vms.launcher.containers import bytes_in
from ullage.vms.launcher.settings import ClusterSettings

MOST: Final = 2**63 - 1  # bytes, or CPUs: other readers of a cost have 64 bits for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """The spec, with the defaults that KubeVirt's webhook writes into it."""

    spec: Mapping[str, Any]
    domain: Mapping[str, Any]
    vcpus: int
    limits: Amounts
    requests: Amounts
    memory: int | None
    """The memory of the guest, where the VM says it."""
    architecture: str

    @classmethod
    def of(cls, spec: Mapping[str, Any], settings: ClusterSettings) -> Guest:
        domain = part(spec, "domain")
        limits, requests = _resources(domain, "limits"), _resources(domain, "requests")
        memory = amount(domain, "memory", "guest")
        if memory and "memory" not in requests and "memory" not in limits:
            requests["memory"] = Quantity.of(memory * 100 // settings.memory_overcommit, Format.BINARY_SI)
        for name in ("cpu", "memory"):
            if name in limits:
                requests.setdefault(name, limits[name])
        given = spec.get("architecture")
        return cls(
            spec=spec,
            domain=domain,
            vcpus=vcpus_of(domain),
            limits=limits,
            requests=requests,
            memory=memory or None,
            architecture=given if isinstance(given, str) and given else settings.architecture,
        )

    @property
    def devices(self) -> Mapping[str, Any]:
        return part(self.domain, "devices")

    @property
    def interfaces(self) -> list[Mapping[str, Any]]:
        return maps(self.devices.get("interfaces"))

    @property
    def requested_memory(self) -> int:
        return bytes_in(self.requests, "memory")

    @property
    def is_pinned(self) -> bool:
        return part(self.domain, "cpu").get("dedicatedCpuPlacement") is True

    @property
    def is_guaranteed(self) -> bool:
        """Whether its requests are its limits. Containers beside it are then guaranteed what they ask for, too."""
        sides = [(self.requests.get(name), self.limits.get(name)) for name in ("cpu", "memory")]
        return self.is_pinned or all(limit is not None and request == limit for request, limit in sides)

    @property
    def page_size(self) -> str:
        found = part(part(self.domain, "memory"), "hugepages").get("pageSize")
        return found if isinstance(found, str) else ""


def vcpus_of(domain: Mapping[str, Any]) -> int:
    """The topology; without one the CPUs of the limit, or of the request, rounded up; at least one."""
    cpu = part(domain, "cpu")
    given = [cpu[key] for key in ("cores", "sockets", "threads") if type(cpu.get(key)) is int and cpu[key] > 0]
    if given:
        product = 1
        for count in given:
            product *= count
        if product > MOST // 1000:
            raise BadInput("spec.template.spec.domain.cpu", str(product)[:40], f"no more than {MOST // 1000} vCPUs are allowed")
        return product
    for side in ("limits", "requests"):
        found = amount(domain, "resources", side, "cpu", milli=True)
        if found:
            return max(1, -(-found // 1000))
    return 1


def _resources(domain: Mapping[str, Any], side: Side) -> Amounts:
    """An amount of 0 is no amount: a limit of 0 limits nothing on a node."""
    names = [name for name in part(part(domain, "resources"), side) if isinstance(name, str)]
    found = ((name, _quantity(domain, "resources", side, name)) for name in names)
    return {name: quantity for name, quantity in found if quantity is not None and quantity.sign}


def part(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A map below a key; an empty one where there is something else. The shape of foreign objects is not checked."""
    found = holder.get(key)
    return found if isinstance(found, Mapping) else {}


def maps(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list | tuple) else []


def amount(domain: Mapping[str, Any], *path: str, milli: bool = False) -> int | None:
    """Bytes, or thousandths of a CPU; None where the field is absent. Raises BadInput, which names it."""
    found = _quantity(domain, *path)
    return None if found is None else found.milli() if milli else found.value()


def _quantity(domain: Mapping[str, Any], *path: str) -> Quantity | None:
    holder = domain
    for key in path[:-1]:
        holder = part(holder, key)
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
    return quantity
