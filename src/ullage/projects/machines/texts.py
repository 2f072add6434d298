"""What people are told about Machines and MachineDeployments: KKP's own sentence first, since users and tools look for it, then
every number with its unit, for every resource that is exceeded, and what to try next. Pure, and one line each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ullage.ledger.amounts import Amounts, spell
from ullage.ledger.book import Over
from ullage.projects.machines.wholes import NO_PARTS, Exceeded, Whole, Wholes, exceeded_by
from ullage.projects.names import CPU, MEMORY, RESOURCES, STORAGE
from ullage.projects.quota import QuotaFault
from ullage.quantity import Quantity

NAMES: Final = {CPU: "CPU", MEMORY: "Memory", STORAGE: "disk size"}
ENFORCE_EARLY: Final = "ullage.io/enforce-early"
LONGEST_REASON: Final = 512  # characters: a provider may say more, and a tenant has written some of it
LONGEST_WARNING: Final = 256  # characters: kube-apiserver cuts what is longer
CORRECT: Final = "have an administrator correct the quota"
TRY_AGAIN: Final = "try again in a moment, since room may come from other seeds"
_PARTS: Final = (Exceeded.PART, Exceeded.PART_OF_UNKNOWN)
_FIGURES: Final = (Exceeded.WHOLE, Exceeded.PART)  # what is said of these has what all seeds use


def refusal_text(
    over: Iterable[Over], *, next_step: str, wholes: Wholes = NO_PARTS, closed: Mapping[str, QuotaFault] | None = None
) -> str:
    """`requested CPU "6" would exceed current quota (quota/used "20"/"18"): asked 6 cores, used 18 cores, …; requested Memory
    …`. `wholes` is the project's quota where what limits here is this seed's part of it: it is named first, with what the
    project uses of it, and then the part, with what is used here. `closed` has the amounts that cannot be, by resource: nothing
    is allowed until they are corrected."""
    every = in_order(over)
    if wrong := [str(fault) for one in every if closed and (fault := closed.get(one.resource)) is not None]:
        said = "; ".join(over_text(one) for one in every)
        return f"{said}. The quota allows nothing until it is corrected: {'; '.join(wrong)}. Next: {CORRECT}"
    said = "; ".join(over_text(one, whole=wholes.of.get(one.resource)) for one in every)
    step = f"{TRY_AGAIN}, or {next_step}" if _only_parts(every, wholes) else next_step
    return f"{said}{_stale_text(every, wholes)}. Next: {step}"


def over_text(over: Over, *, whole: Whole | None = None) -> str:
    exceeded, name = exceeded_by(over, whole), over.resource
    asked = f"asked {spell(name, over.asked)}"
    used, reserved = f"used {spell(name, over.used)}", f"reserved {spell(name, over.reserved)}"
    limit, by = spell(name, over.limit, down=True), f"over by {spell(name, over.over)}"
    if whole is None or exceeded is Exceeded.QUOTA:
        return f"{_sentence(over, over.limit, over.used)}: {asked}, {used}, {reserved}, quota {limit}, {by}"
    everywhere, quota = whole.used_with(over.used), spell(name, whole.limit, down=True)
    part = f"{asked}, {used} on this seed, {reserved}, granted to it {limit}"
    if exceeded is Exceeded.PART_OF_UNKNOWN:
        said = f"{_sentence(over, over.limit, over.used)} on this seed"
        return f"{said}: {part} of {quota} in all, {by} (what is used on all seeds is not known)"
    said = _sentence(over, whole.limit, everywhere)
    if exceeded is Exceeded.PART:
        return f"{said} on this seed: {part}, {by} (on all seeds: used {spell(name, everywhere)} of {quota})"
    by = f"over by {spell(name, everywhere + over.asked - whole.limit)}"
    here = f"on this seed: {used}, {reserved}, granted to it {limit}"
    return f"{said}: {asked}, used {spell(name, everywhere)} on all seeds, quota {quota}, {by} ({here})"


def _sentence(over: Over, quota: Quantity, used: Quantity) -> str:
    """KKP's own."""
    name = NAMES.get(over.resource, over.resource)
    return f'requested {name} "{over.asked}" would exceed current quota (quota/used "{quota}"/"{used}")'


def _only_parts(over: Iterable[Over], wholes: Wholes) -> bool:
    """Whether the project has room for all of it, as far as is known: it is on other seeds."""
    return all(exceeded_by(one, wholes.of.get(one.resource)) in _PARTS for one in over)


def _stale_text(over: Iterable[Over], wholes: Wholes) -> str:
    shown = any(exceeded_by(one, wholes.of.get(one.resource)) in _FIGURES for one in over)
    return (
        f". What is used on all seeds is not all of now: {_short(wholes.stale, LONGEST_REASON)}"
        if shown and wholes.stale
        else ""
    )


def in_order(over: Iterable[Over]) -> list[Over]:
    """CPU, memory, disk: the order in which KKP looks at them."""
    order = {name: number for number, name in enumerate(RESOURCES)}
    return sorted(over, key=lambda one: (order.get(one.resource, len(order)), one.resource))


def room_step(project: str) -> str:
    """What to do where a project is full."""
    return f"ullage usage --group-by cluster project/{project}, then delete machines or scale down, or have the quota raised"


def rolling_step(deployment: str) -> str:
    """What to do where it is a rolling replacement that does not fit."""
    return (
        f"let machines be removed before new ones come: set spec.strategy.rollingUpdate.maxUnavailable of MachineDeployment"
        f" {deployment} to 1 and maxSurge to 0, or have the quota raised"
    )


def unknown_size_text(machine: str, reason: str, *, looked_up: bool) -> str:
    """Where there is a quota, and nobody knows what a machine would take of it. `looked_up`: the provider is being asked."""
    step = (
        "it is being looked up, try again in a minute"
        if looked_up
        else "correct spec.providerSpec, or ask the administrator which sizes there are"
    )
    return (
        f"error getting machine resource request: {_short(reason, LONGEST_REASON)}. The project has a quota, so Machine"
        f" {machine} is not created. Next: {step}"
    )


def away_text(machine: str, *, problem: str) -> str:
    """Where nobody can be asked whether it fits: the webhook is there, and what it asks is not."""
    return (
        f"Machine {machine} is not created: whether it fits the project's quota cannot be asked now ({problem}). Machines that"
        " are there are not touched, and may be changed and deleted. Next: try again in a moment"
    )


# --- updates ---------------------------------------------------------------------------------------------------------


def changed_cost_text(machine: str, before: Amounts, after: Amounts) -> str:
    """`spec.providerSpec: Machine web-1 would take cpu 4 cores instead of 2 cores; a server keeps …`."""
    names = [name for name in _resources(before, after) if before[name] != after[name]]
    said = ", ".join(f"{name} {spell(name, after[name])} instead of {spell(name, before[name])}" for name in names)
    return (
        f"spec.providerSpec: Machine {machine} would take {said}; a server keeps the size that it was made with. Next: change"
        " the MachineDeployment, which replaces its machines, or create another Machine and delete this one"
    )


def unknown_cost_text(machine: str) -> str:
    return (
        f"spec.providerSpec: whether the change leaves what Machine {machine} takes as it is cannot be told, since a size is"
        " not known, and the project has a quota. It is being looked up. Next: try again in a minute"
    )


# --- MachineDeployments ----------------------------------------------------------------------------------------------


def is_certain(over: Iterable[Over], wholes: Wholes) -> bool:
    """Whether the project itself has no room. Where only this seed's part has none, more is granted as machines ask for it."""
    return not _only_parts(over, wholes)


def early_refusal_text(
    deployment: str, replicas: int, over: Iterable[Over], *, next_step: str, wholes: Wholes = NO_PARTS
) -> str:
    said = refusal_text(over, next_step=next_step, wholes=wholes)
    return f"MachineDeployment {deployment} would not get its {machines(replicas)} ({ENFORCE_EARLY} is true): {said}"


def early_warning_text(deployment: str, replicas: int, over: Iterable[Over], *, wholes: Wholes = NO_PARTS) -> str:
    """Short enough that it is shown whole."""
    every = in_order(over)
    said = ", ".join(f"{one.resource} is over by {spell(one.resource, one.over)}" for one in every)
    what, then = "the project's quota", "what is beyond is refused"
    if _only_parts(every, wholes):
        what, then = "this seed's part of the quota now", "room may come from others"
    fit = "does not fit" if replicas == 1 else "do not fit"
    return _short(f"MachineDeployment {deployment}: {machines(replicas)} {fit} {what}: {said}; {then}", LONGEST_WARNING)


def surge_text(deployment: str, *, revision: int, new: int, old: int, over: Iterable[Over]) -> str:
    """What the condition `Replacing` says while a replacement passes the limit."""
    said = ", ".join(f"{one.resource} by {spell(one.resource, one.over)}" for one in in_order(over))
    return (
        f"MachineDeployment {deployment} is replacing {machines(old)} by those of revision {revision}, of which there are"
        f" {new}; until that is done the quota is passed: {said}"
    )


def machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number} machines"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _resources(*amounts: Amounts) -> list[str]:
    found = {name for one in amounts for name in one}
    return [*(name for name in RESOURCES if name in found), *sorted(found - {*RESOURCES})]
