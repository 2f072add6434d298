"""The numbers with which each version of KubeVirt sizes the pod of a VM, and the choice of the row for a version.

A row holds from its version up to the next row. The numbers were read off the pods that the versions themselves render. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from ullage.errors import BadInput

MI: Final = 1 << 20
GI: Final = 1 << 30


class Version(NamedTuple):
    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"v{self.major}.{self.minor}.{self.patch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What one version of KubeVirt adds to a guest, in bytes, and which of its later features it has."""

    version: Version
    processes: int
    """virt-launcher-monitor, virt-launcher, virtlogd, virtqemud and qemu itself."""
    screen: int
    vcpu: int = 8 * MI
    io_thread: int = 8 * MI
    page_tables: int = 512
    """The page tables take one byte for this many bytes of memory."""
    host_devices: int = GI
    arm64: int = 128 * MI
    sev: int = 256 * MI
    tpm: int = 53 * MI
    passt: int = 0
    """Of interfaces with the binding `passt`, while that was built in."""
    guaranteed: int = 0
    """Of VMs with dedicated CPUs, or whose requests equal their limits."""
    console_log: bool = False
    """Whether the pod has a container `guest-console-log`."""
    auto_limits: Literal["never", "gate", "always"] = "never"
    """Whether a core ResourceQuota on limits gives limits to VMs without; `gate`: with the gate AutoResourceLimitsGate."""
    pinned_requests: bool = False
    """Whether dedicated CPUs are written as requests, too. Elsewhere the API server copies them from the limits."""
    io_pool: bool = False
    """Whether the threads of a supplementalPool get CPUs."""
    tpm_switch: bool = False
    """Whether `tpm.enabled: false` is no TPM."""


_V0_53: Final = Numbers(version=Version(0, 53, 0), processes=179 * MI, screen=16 * MI)
_V0_59: Final = replace(_V0_53, version=Version(0, 59, 0), processes=210 * MI, passt=800 * MI)
_V1_1: Final = replace(_V0_59, version=Version(1, 1, 0), guaranteed=100 * MI, console_log=True, auto_limits="gate")
_V1_5: Final = replace(
    _V1_1,
    version=Version(1, 5, 0),
    processes=220 * MI,
    passt=0,
    auto_limits="always",
    pinned_requests=True,
    io_pool=True,
)
ROWS: Final[tuple[Numbers, ...]] = (
    _V0_53,
    replace(_V0_53, version=Version(0, 54, 0), processes=180 * MI),
    replace(_V0_53, version=Version(0, 58, 0), processes=208 * MI),
    _V0_59,
    _V1_1,
    replace(_V1_1, version=Version(1, 3, 0), passt=0),
    replace(_V1_1, version=Version(1, 4, 1), processes=215 * MI, passt=0),
    _V1_5,
    replace(_V1_5, version=Version(1, 6, 0), screen=32 * MI, tpm_switch=True),
)
NEWEST: Final = Version(1, 8, 0)  # whose numbers are known; a later one may have others
LATEST_PATCH: Final = 1 << 30

_SYNTAX: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,6}))?(?:[-+][0-9A-Za-z.+-]{1,100})?")


def numbers_of(text: str, *, where: str) -> Numbers:
    """The row of a version as KubeVirt or a user writes it: `v1.4.0`, `1.6`, `v1.5.2-harvester.1`. Without a patch release the
    last one of the minor release counts. A version after the newest known one has the newest row; see `is_newer`.

    Raises BadInput, which names `where`, for what is no version and for versions before the first row."""
    version = parse(text, where=where)
    found = next((row for row in reversed(ROWS) if row.version <= version), None)
    if found is None:
        raise BadInput(where, text, f"{ROWS[0].version} or later is allowed")
    return found


def parse(text: str, *, where: str) -> Version:
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise BadInput(where, repr(text[:100]), "a version of KubeVirt is allowed, such as v1.6.0 or 1.6")
    major, minor, patch = match.groups()
    return Version(int(major), int(minor), LATEST_PATCH if patch is None else int(patch))


def is_newer(text: str, *, where: str) -> bool:
    """Whether a version is of a later minor release than those whose numbers are known."""
    return parse(text, where=where)[:2] > NEWEST[:2]
