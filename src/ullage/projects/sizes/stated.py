"""Providers whose machines say how large they are: KubeVirt, Nutanix, vSphere, and machines that nobody makes (`fake`).

What a machine leaves to something else, as to an instance type or to the disk of a template, is looked up like a flavour.
"""

from __future__ import annotations

from typing import Final

from ullage.ledger.amounts import Amounts
from ullage.projects.sizes.fields import Fields, needed_size
from ullage.projects.sizes.lookups import CPU, MEMORY, STORAGE, MachineConfig, storage
from ullage.projects.sizes.units import MOST_BYTES, MOST_CPU, MOST_CPUS, UNITS
from ullage.quantity import Quantity

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
