"""Flavours from what providers answer, each in the JSON that the provider documents.

One entry that cannot be read costs nothing but itself: a provider that brings out something new must not stop all machines of
it. Such entries are listed, so that somebody gets to know. An answer that is of another shape altogether is BadInput.

Pages are decoded one by one; whoever fetches them follows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from ullage.errors import BadInput
from ullage.projects.sizes.catalogue import MOST_FLAVOURS, Flavour
from ullage.projects.sizes.fields import MISSING, Fields, needed_size, shown
from ullage.projects.sizes.units import GI, MOST_BYTES, MOST_CPUS, UNITS, Unit
from ullage.quantity import Quantity

MOST_SKIPPED: Final = 20  # that are listed
MOST_PARTS: Final = 200  # processors or drives of a server, capabilities of a VM size
_SIZE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([GT])i?B")
_NUMBER: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
_CORES: Final = re.compile(r"\b([0-9]{1,3})[- ]Cores?\b", re.IGNORECASE)

Named = Iterator[tuple[str, Flavour]]


@dataclass(frozen=True, slots=True)
class Decoded:
    """One answer's flavours, and what could not be read of it: the first few, and how many in all."""

    flavours: Mapping[str, Flavour]
    skipped: tuple[str, ...] = ()
    skips: int = 0


@dataclass(slots=True)
class _Reading:
    flavours: dict[str, Flavour] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    skips: int = 0


def decode(provider: str, answer: object) -> Decoded:
    """`provider` is one that has a catalogue (`DECODERS`)."""
    items, read = DECODERS[provider]
    reading = _Reading()
    for path, entry in items(Fields(answer, "")):
        try:
            reading.flavours.update(read(Fields(entry, path)))
        except BadInput as error:
            reading.skips += 1
            if len(reading.skipped) < MOST_SKIPPED:
                reading.skipped.append(str(error))
    return Decoded(reading.flavours, tuple(reading.skipped), reading.skips)


def _items(*path: str) -> Callable[[Fields], Iterator[tuple[str, object]]]:
    """The entries of the list there, with their places."""

    def listed(answer: Fields) -> Iterator[tuple[str, object]]:
        for name in path[:-1]:
            answer = answer.part(name)
        found, where = answer.get(path[-1]), answer.at(path[-1])
        if not isinstance(found, Sequence) or isinstance(found, str):
            raise BadInput(where, MISSING if found is None else shown(found), "a list is needed")
        if len(found) > MOST_FLAVOURS:
            raise BadInput(where, f"of {len(found)} items", f"at most {MOST_FLAVOURS} are allowed")
        yield from ((f"{where}[{place}]", one) for place, one in enumerate(found))

    return listed


def _alibaba(entry: Fields) -> Named:
    memory = UNITS["alibaba"].memory
    yield (
        entry.needed_text("InstanceTypeId", "a name"),
        Flavour(_cpus(entry, "CpuCoreCount"), _some(entry, "MemorySize", memory)),
    )


def _aws(entry: Fields) -> Named:
    memory = needed_size(entry.part("MemoryInfo"), "SizeInMiB", UNITS["aws"].memory)
    yield entry.needed_text("InstanceType", "a name"), Flavour(_cpus(entry.part("VCpuInfo"), "DefaultVCpus"), memory)


def _azure(entry: Fields) -> Named:
    """Either of its two lists: VM sizes of a location, or resource SKUs, among which there are other things than VMs."""
    if entry.get("capabilities") is None and entry.get("resourceType") is None:
        memory = needed_size(entry, "memoryInMB", UNITS["azure"].memory)
        yield entry.needed_text("name", "a name"), Flavour(_cpus(entry, "numberOfCores"), memory)
    elif entry.get("resourceType") == "virtualMachines":
        capable = {one.text("name"): one for one in entry.parts("capabilities", most=MOST_PARTS)}
        # Some sizes have fewer vCPUs than the hardware that they are sold with.
        cpus = _capability(entry, capable, "vCPUsAvailable" if "vCPUsAvailable" in capable else "vCPUs", most=MOST_CPUS)
        memory = GI.of(_capability(entry, capable, "MemoryGB", most=GI.most))
        yield entry.needed_text("name", "a name"), Flavour(_cores(cpus), memory)


def _digitalocean(entry: Fields) -> Named:
    units = UNITS["digitalocean"]
    memory, disk = needed_size(entry, "memory", units.memory), needed_size(entry, "disk", units.disk)
    yield entry.needed_text("slug", "a name"), Flavour(_cpus(entry, "vcpus"), memory, disk)


def _equinixmetal(entry: Fields) -> Named:
    """A server has so many processors, and each so many cores; old answers say the latter in words only."""
    units, specs = UNITS["equinixmetal"], entry.part("specs")
    cores = sum(_count(one) * _cores_of(one) for one in specs.parts("cpus", most=MOST_PARTS))
    if not 0 < cores <= MOST_CPUS:
        raise BadInput(specs.at("cpus"), f"of {cores} cores", f"1 to {MOST_CPUS} are allowed")
    memory = _worded(specs.part("memory"), "total", units.memory, count=1)
    drives = [_worded(one, "size", units.disk, count=_count(one)) for one in specs.parts("drives", most=MOST_PARTS)]
    flavour = Flavour(Quantity.of(cores), memory, sum(drives[1:], drives[0]) if drives else None)
    yield from ((name, flavour) for name in {entry.needed_text("name", "a name"), entry.text("slug")} - {""})


def _gce(entry: Fields) -> Named:
    memory = needed_size(entry, "memoryMb", UNITS["gce"].memory)
    yield entry.needed_text("name", "a name"), Flavour(_cpus(entry, "guestCpus"), memory)


def _hetzner(entry: Fields) -> Named:
    """Machines may name a server type by its number."""
    units = UNITS["hetzner"]
    flavour = Flavour(_cpus(entry, "cores"), _some(entry, "memory", units.memory), needed_size(entry, "disk", units.disk))
    yield from ((name, flavour) for name in (entry.needed_text("name", "a name"), entry.text("id")) if name)


def _kubevirt(entry: Fields) -> Named:
    """A VirtualMachineInstancetype or a VirtualMachineClusterInstancetype. List the latter first: of two that have one name,
    the one in the namespace is used, and here the one that comes last."""
    spec = entry.part("spec")
    memory = spec.part("memory").quantity("guest", most=MOST_BYTES)
    yield entry.part("metadata").needed_text("name", "a name"), Flavour(_cpus(spec.part("cpu"), "guest"), memory)


def _openstack(entry: Fields) -> Named:
    """A flavour whose disk is 0 has one as large as the image."""
    units = UNITS["openstack"]
    disk = entry.needed_number("disk", least=0, most=units.disk.most)
    flavour = Flavour(_cpus(entry, "vcpus"), needed_size(entry, "ram", units.memory), units.disk.of(disk) if disk else None)
    yield entry.needed_text("name", "a name"), flavour


def _cpus(entry: Fields, name: str) -> Quantity:
    return Quantity.of(entry.needed_number(name, least=1, most=MOST_CPUS))


def _some(entry: Fields, name: str, unit: Unit) -> Quantity:
    return unit.of(entry.fraction(name, most=unit.most))


def _cores(number: Fraction) -> Quantity:
    return Quantity(-(-number.numerator * 10**9 // number.denominator))


def _capability(entry: Fields, capable: Mapping[str, Fields], name: str, *, most: int) -> Fraction:
    given = capable[name].text("value") if name in capable else ""
    if not _NUMBER.fullmatch(given) or not 0 < (number := Fraction(given)) <= most:
        where = f"{entry.at('capabilities')}.{name}"
        raise BadInput(where, shown(given) if given else MISSING, f"a number above 0, up to {most}, is allowed")
    return number


def _count(part: Fields) -> int:
    return part.needed_number("count", least=0, most=MOST_CPUS)


def _cores_of(processor: Fields) -> int:
    said = processor.number("cores", least=1, most=MOST_CPUS)
    words = _CORES.search(processor.text("type"))
    return said or (int(words[1]) if words else 1)


def _worded(fields: Fields, name: str, unit: Unit, *, count: int) -> Quantity:
    """`480GB`, `3.8TB`, so many times: a thousand of the unit or 1024, as the unit is."""
    given = fields.text(name)
    words = _SIZE.fullmatch(given)
    if words is None:
        raise BadInput(fields.at(name), shown(given), "a size such as 480GB or 3.8TB is needed")
    step = 1 if words[2] == "G" else 1024 if unit is GI else 1000
    return unit.of(Fraction(words[1]) * step * count)


DECODERS: Final[Mapping[str, tuple[Callable[[Fields], Iterator[tuple[str, object]]], Callable[[Fields], Named]]]] = {
    "alibaba": (_items("InstanceTypes", "InstanceType"), _alibaba),  # DescribeInstanceTypes
    "aws": (_items("InstanceTypes"), _aws),  # DescribeInstanceTypes
    "azure": (_items("value"), _azure),  # virtualMachineSizes or resourceSkus
    "digitalocean": (_items("sizes"), _digitalocean),  # /v2/sizes
    "equinixmetal": (_items("plans"), _equinixmetal),  # /plans
    "gce": (_items("items"), _gce),  # machineTypes.list
    "hetzner": (_items("server_types"), _hetzner),  # /v1/server_types
    "kubevirt": (_items("items"), _kubevirt),  # lists of instance types
    "openstack": (_items("flavors"), _openstack),  # /flavors/detail
}
