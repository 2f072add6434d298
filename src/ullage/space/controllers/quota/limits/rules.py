"""Which entries of a quota belong to virtual machines that are gone. Pure.

A limit may be set before there is a virtual machine of its name, so one that nobody has seen says nothing. Once one was seen
with the limit, its uid is remembered in the status, and the entry is about that one: when it is gone, or another one has its
name, the entry goes, and a new virtual machine does not inherit it. A limit that was set to another value since is about
whoever has the name now, or will have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ullage.space.api import KnownVM, ResourceQuota
from ullage.space.quota import spelled

NAMED: Final = 5  # virtual machines that an Event names


@dataclass(frozen=True, slots=True)
class Memory:
    """`known` is to be remembered; `gone` are the entries of virtual machines that are not there any more."""

    known: Mapping[str, KnownVM]
    gone: tuple[str, ...]


def remember(quota: ResourceQuota, before: Mapping[str, KnownVM], uid_of: Callable[[str], str]) -> Memory:
    """`uid_of` is empty where there is no virtual machine of the name."""
    known: dict[str, KnownVM] = {}
    gone: list[str] = []
    for vm, limit in sorted(quota.spec.snapshot_limit.vm_total_snapshot_size_quota.items()):
        uid, seen = uid_of(vm), before.get(vm)
        if seen is None or seen.limit != limit or seen.uid == uid:
            if uid:
                known[vm] = KnownVM(uid=uid, limit=limit)
            continue
        known[vm] = seen  # kept until the entry has gone: whoever is killed before that goes on with it
        gone.append(vm)
    return Memory(known, tuple(gone))


def removal_note(limits: Mapping[str, int]) -> str:
    """What is told of limits that were taken away: `VM db (10Gi) is deleted, and its limit with it.`"""
    named = ", ".join(f"{vm} ({spelled(limit, down=True)})" for vm, limit in sorted(limits.items())[:NAMED])
    more = f" and {len(limits) - NAMED} more" if len(limits) > NAMED else ""
    if len(limits) == 1:
        return f"VM {named} is deleted, and its limit with it."
    return f"VMs {named}{more} are deleted, and their limits with them."
