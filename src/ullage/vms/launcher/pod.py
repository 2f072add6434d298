"""The pod in which KubeVirt runs a VM. `launcher_pod()` gives the limits AND the requests of its containers, and their sums as
a core ResourceQuota counts them: `LauncherPod.limits` and `LauncherPod.requests`.

Pure. The formula agrees with every pod that KubeVirt itself rendered for `tests/unit/vms/kubevirt_pods`. It leaves out:

- devices that KubeVirt's own device plugin hands out (`devices.kubevirt.io/kvm` and such);
- what other webhooks and LimitRanges of the namespace add to pods;
- `alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity`, which gives the emulator thread a second CPU;
- the pods beside it that hold disks which are plugged in while a VM runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ullage.pods.resources import Amounts, larger
from ullage.vms.launcher.compute import COMPUTE, bindings_of, compute
from ullage.vms.launcher.containers import Container, Part, bytes_in, counted, thousandths_in
from ullage.vms.launcher.guest import Guest, maps, part
from ullage.vms.launcher.settings import (
    DISK_BINARY,
    GUARANTEED_SIDECAR,
    NO_RULES,
    SUPPORT,
    ClusterSettings,
    NamespaceRules,
    Support,
)

CONSOLE_LOG: Final = "guest-console-log"
SIDECARS: Final = "hooks.kubevirt.io/hookSidecars"  # an annotation: a list, in JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherPod:
    containers: tuple[Container, ...]
    overhead: int
    """The bytes that `compute` takes beyond the memory of the guest."""
    most: Amounts
    """What `compute` may use of CPU and memory where it has no limit."""
    parts: tuple[Part, ...]
    """The lines of which CPU and memory in `bounds` are the sum, but for containers that only start the others."""

    @property
    def limits(self) -> Amounts:
        """As a core ResourceQuota counts them."""
        return counted("limits", ((one, one.limits) for one in self.containers))

    @property
    def requests(self) -> Amounts:
        """As a core ResourceQuota counts them: the API server makes requests of limits that have none."""
        return counted("requests", ((one, one.counted("requests")) for one in self.containers))

    @property
    def rendered_requests(self) -> Amounts:
        """As KubeVirt writes them, before the API server adds to them."""
        return counted("requests", ((one, one.requests) for one in self.containers))

    @property
    def bounds(self) -> Amounts:
        """The limits; where `compute` has none, all that it may use. Never less than the requests."""
        bounded = ((one, {**self.most, **one.limits} if one.name == COMPUTE else one.limits) for one in self.containers)
        return larger(counted("limits", bounded), self.requests)


def launcher_pod(
    spec: Mapping[str, Any],
    settings: ClusterSettings,
    rules: NamespaceRules = NO_RULES,
    annotations: Mapping[str, str] | None = None,
) -> LauncherPod:
    """The pod of a VirtualMachineInstance with this `spec` and these annotations, or of a VirtualMachine with this template.
    Raises BadInput, which names the field below `spec.template.spec`."""
    guest = Guest.of(spec, settings)
    main = compute(guest, settings, rules)
    beside = tuple(_beside(guest, settings, annotations or {}))
    parts = (
        Part(one.name, bytes_in(one.limits, "memory"), thousandths_in(one.limits)) for one in beside if not one.starts_first
    )
    return LauncherPod(
        containers=(main.container, *beside),
        overhead=main.overhead,
        most=main.most,
        parts=(*main.parts, *(one for one in parts if one.memory or one.cpu)),
    )


def _beside(guest: Guest, settings: ClusterSettings, annotations: Mapping[str, str]) -> Iterator[Container]:
    """The containers beside `compute`."""
    if _logs_console(guest, settings):
        yield _support(CONSOLE_LOG, "guest-console-log", guest, settings)
    disks = [f"volume{one.get('name')}" for one in maps(guest.spec.get("volumes")) if one.get("containerDisk") is not None]
    if part(part(part(guest.domain, "firmware"), "kernelBoot"), "container").get("image"):
        disks.append("volumekernel-boot-volume")
    if disks:
        usual = SUPPORT["container-disk"] if guest.is_guaranteed else DISK_BINARY
        yield _container("container-disk-binary", "container-disk", usual, guest, settings, starts_first=True)
    for name in disks:
        yield _support(name, "container-disk", guest, settings)
        yield _support(f"{name}-init", "container-disk", guest, settings, starts_first=True)
    for one in maps(guest.devices.get("filesystems")):
        if one.get("virtiofs") is not None:
            yield _support(f"virtiofs-{one.get('name')}", "virtiofs", guest, settings)
    sidecars = _hooks(annotations) + sum(one.sidecar for one in bindings_of(guest, settings))
    for number in range(sidecars):
        yield _support(f"hook-sidecar-{number}", "sidecar", guest, settings)


def _support(name: str, kind: str, guest: Guest, settings: ClusterSettings, *, starts_first: bool = False) -> Container:
    usual = SUPPORT[kind]
    if kind == "sidecar" and guest.is_guaranteed:
        usual = Support(GUARANTEED_SIDECAR, GUARANTEED_SIDECAR)
    return _container(name, kind, usual, guest, settings, starts_first=starts_first)


def _container(
    name: str, kind: str, usual: Support, guest: Guest, settings: ClusterSettings, *, starts_first: bool
) -> Container:
    chosen = settings.support.get(kind, Support())
    limits, requests = {**usual.limits, **chosen.limits}, {**usual.requests, **chosen.requests}
    return Container(name, limits, {**requests, **limits} if guest.is_guaranteed else requests, starts_first)


def _logs_console(guest: Guest, settings: ClusterSettings) -> bool:
    if not settings.numbers.console_log or guest.devices.get("autoattachSerialConsole") is False:
        return False
    given = guest.devices.get("logSerialConsole")
    return given if isinstance(given, bool) else settings.console_log


def _hooks(annotations: Mapping[str, str]) -> int:
    """How many sidecars an annotation asks for. KubeVirt makes no pod where it cannot be read."""
    try:
        found = json.loads(annotations.get(SIDECARS, "[]"))
    except (ValueError, RecursionError):
        return 0
    return len(found) if isinstance(found, list) else 0
