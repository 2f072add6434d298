"""What people are told about Machines and MachineDeployments: KKP's own sentence first, since users and tools look for it, then
every number with its unit, for every resource that is exceeded, and what to try next. Pure, and one line each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from ullage.ledger.amounts import Amounts, spell
from ullage.ledger.book import Over
from ullage.ledger.refusals import MORE
from ullage.projects.names import CPU, MEMORY, RESOURCES, STORAGE
from ullage.quantity import Quantity

NAMES: Final = {CPU: "CPU", MEMORY: "Memory", STORAGE: "disk size"}
ENFORCE_EARLY: Final = "ullage.io/enforce-early"
LONGEST_REASON: Final = 512  # characters: a provider may say more, and a tenant has written some of it
LONGEST_WARNING: Final = 256  # characters: kube-apiserver cuts what is longer


def refusal_text(
    over: Iterable[Over],
    *,
    next_step: str,
    quota: Mapping[str, Quantity] | None = None,
    more: Literal["", "asked", "possible"] = "",
) -> str:
    """`requested CPU "6" would exceed current quota (quota/used "20"/"18"): asked 6 cores, used 18 cores, …; requested Memory
    …`.

    `quota` is the project's, by resource, where what limits here is this seed's grant of it. `more` is about such grants.
    """
    said = "; ".join(over_text(one, quota=(quota or {}).get(one.resource)) for one in in_order(over))
    return f"{said}{MORE[more]}. Next: {next_step}"


def over_text(over: Over, *, quota: Quantity | None = None) -> str:
    name = over.resource
    sentence = (
        f'requested {NAMES.get(name, name)} "{over.asked}" would exceed current quota (quota/used "{over.limit}"/"{over.used}")'
    )
    limit = f"quota {spell(name, over.limit, down=True)}"
    if quota is not None and quota != over.limit:
        limit += f" on this seed, of {spell(name, quota, down=True)} in all"
    return (
        f"{sentence}: asked {spell(name, over.asked)}, used {spell(name, over.used)}, reserved {spell(name, over.reserved)},"
        f" {limit}, over by {spell(name, over.over)}"
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


def early_refusal_text(deployment: str, replicas: int, over: Iterable[Over], *, next_step: str) -> str:
    said = "; ".join(over_text(one) for one in in_order(over))
    return (
        f"MachineDeployment {deployment} would not get its {machines(replicas)} ({ENFORCE_EARLY} is true): {said}."
        f" Next: {next_step}"
    )


def early_warning_text(deployment: str, replicas: int, over: Iterable[Over]) -> str:
    """Short enough that it is shown whole."""
    said = ", ".join(f"{one.resource} is over by {spell(one.resource, one.over)}" for one in in_order(over))
    fit = "does not fit" if replicas == 1 else "do not fit"
    text = f"MachineDeployment {deployment}: {machines(replicas)} {fit} the project's quota: {said}; what is beyond is refused"
    return _short(text, LONGEST_WARNING)


def surge_text(deployment: str, *, revision: int, new: int, old: int, over: Iterable[Over]) -> str:
    """What the condition says while a replacement passes the limit."""
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
