"""Rolling replacement at the limit: how far the Machines of a newer revision may pass it while older ones are still there.
Pure.

A MachineDeployment that replaces its machines creates some (`maxSurge`) before it removes others. Where the quota is full these
do not fit. The setting `surge: strict` refuses them, and says what to set. With `surge: replace` they may pass the limit by
what they replace.

Everything that is looked at here is written in the user cluster, whose administrator can forge all of it: owner references,
revisions, templates, `maxSurge`. So nothing of it is trusted to be true; it only has to be consistent, and the allowance is
bounded by what cannot be forged, which is the old machines that are there with valid stamps and so count themselves:

- of each old machine no more than the smaller of its own amounts and the new one's: a replacement by larger machines has to
  fit;
- no more old machines than `maxSurge` says, than the deployment wants replicas, and than there are;
- only where the deployment, with all the replicas that it wants of the new size and no old machine any more, fits: otherwise
  what was let in beyond the limit would be the old machines of the next replacement, and that of a larger one after it;
- an old machine has one controller, so it is in the allowance of one deployment;
- the whole of what is over the limit in the project has to be within the allowance of the one deployment that asks. So those of
  many deployments do not add up: the project is never over its limit by more than the largest of them.

A forged replacement gains what a real one with the same `maxSurge` does: at most as much again as the machines that it
pretends to replace take, for as long as they stay. That is what the setting allows, and why it is not the default.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from ullage.ledger.amounts import Amounts
from ullage.projects.machines.facts import Room, times
from ullage.quantity import ZERO, Quantity

SurgeSetting = Literal["strict", "replace"]
STRICT: Final[SurgeSetting] = "strict"
REPLACE: Final[SurgeSetting] = "replace"

_NONE: Final = Amounts()
DEFAULT_SURGE: Final = 1  # of a MachineDeployment that says nothing
_PERCENT: Final = re.compile(r"([0-9]{1,9})%")
_REVISION: Final = re.compile(r"[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFacts:
    """A MachineDeployment. `template` is the digest of its machine template; `max_surge` is as it is written."""

    uid: str
    name: str
    replicas: int
    template: str
    max_surge: object = None
    rolling: bool = True  # its strategy is RollingUpdate
    paused: bool = False
    deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFacts:
    """A MachineSet. `owner` is the uid of the MachineDeployment that its owner references name as controller; empty: none does,
    or more than one reference says that it is the controller, or it is of another kind. `revision` is the annotation."""

    uid: str
    owner: str
    template: str
    revision: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedMachine:
    """A Machine with a valid stamp. `owner` is the uid of the MachineSet that controls it, as above."""

    uid: str
    owner: str
    amounts: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class SurgeAllowance:
    """By how much the project may be over its limit once the new Machine is in: `number` surplus machines, and what those take.
    `why` says what it is for, or why there is none."""

    number: int = 0
    amounts: Amounts = _NONE
    revision: int = 0
    new: int = 0  # machines of the newest revision that are there
    old: int = 0  # and of older ones
    why: str

    @property
    def replaces(self) -> bool:
        """Whether the Machine takes the place of another: then whoever is refused is told how to make room first."""
        return self.old > 0


def max_surge_of(written: object, replicas: int) -> int:
    """As Kubernetes does: a number, or a percentage of the replicas, rounded up. What is neither is none."""
    if written is None:
        return DEFAULT_SURGE
    if isinstance(written, bool):
        return 0
    if isinstance(written, int):
        return max(0, written)
    match = _PERCENT.fullmatch(written) if isinstance(written, str) else None
    return -(-int(match[1]) * max(0, replicas) // 100) if match else 0


def allowance(
    deployment: DeploymentFacts,
    sets: Iterable[SetFacts],
    machines: Iterable[OwnedMachine],
    *,
    setting: SurgeSetting,
    creator: str,
    size: Amounts,
    room: Mapping[str, Room],
) -> SurgeAllowance:
    """What a Machine of this size, that the MachineSet with the uid `creator` is about to create, may pass the limit by."""
    if deployment.deleting or deployment.paused or not deployment.rolling:
        return SurgeAllowance(why=f"MachineDeployment {deployment.name} is not replacing machines: {_state(deployment)}")
    there = _replacement(deployment, sets, machines)
    if there is None:
        return SurgeAllowance(why=f"no MachineSet of MachineDeployment {deployment.name} is the newest one, of its template")
    if creator != there.newest:
        return SurgeAllowance(why=f"the Machine is not of the newest MachineSet of MachineDeployment {deployment.name}")
    found, held, old = there.found, there.held, there.old
    if setting == STRICT:
        return replace(found, why="the setting surge is strict")
    most = min(max_surge_of(deployment.max_surge, deployment.replicas), len(old), max(0, deployment.replicas))
    if found.new >= deployment.replicas or len(held) + 1 > deployment.replicas + most:
        return replace(found, why=f"MachineDeployment {deployment.name} has all its replicas, and {most} beyond")
    if not _fits_in_the_end(deployment, held, size, room):
        return replace(found, why=f"MachineDeployment {deployment.name} would not fit when all is replaced")
    return replace(found, number=most, amounts=_replaced(old, size, most))


def surplus(deployment: DeploymentFacts, sets: Iterable[SetFacts], machines: Iterable[OwnedMachine]) -> SurgeAllowance | None:
    """How far a deployment is with its replacement, where it has more machines than it wants replicas meanwhile. None: it has
    not."""
    there = _replacement(deployment, sets, machines)
    surges = there is not None and there.found.new and there.old and len(there.held) > max(0, deployment.replicas)
    return there.found if there is not None and surges else None


@dataclass(frozen=True, slots=True)
class _Replacement:
    """`held` is what all machines of a deployment take that are there, `old` those of them that are not of the set `newest`."""

    newest: str
    held: Sequence[Amounts]
    old: Sequence[Amounts]
    found: SurgeAllowance


def _replacement(
    deployment: DeploymentFacts, sets: Iterable[SetFacts], machines: Iterable[OwnedMachine]
) -> _Replacement | None:
    """None: no set is the newest one."""
    own = {one.uid: one for one in sets if deployment.uid and one.owner == deployment.uid}
    newest = _newest(deployment, own)
    if newest is None:
        return None
    held = {one.uid: one for one in machines if one.owner in own}.values()
    old = [one.amounts for one in held if one.owner != newest.uid]
    found = SurgeAllowance(
        why=f"MachineDeployment {deployment.name} replaces machines by those of revision {newest.revision}",
        revision=int(newest.revision),
        new=len(held) - len(old),
        old=len(old),
    )
    return _Replacement(newest.uid, [one.amounts for one in held], old, found)


def within(allowance: SurgeAllowance, over: Mapping[str, Quantity]) -> bool:
    """Whether a Machine may pass the limit: all that the project is over by, of each resource, is what is being replaced.
    `over`
    is with the Machine, with all that is reserved, and with what others are over already."""
    return all(by <= allowance.amounts[name] for name, by in over.items() if by.sign > 0)


def _newest(deployment: DeploymentFacts, own: Mapping[str, SetFacts]) -> SetFacts | None:
    """The one set that has the highest revision and the template of the deployment. Where two have either, or a revision is no
    number, somebody has changed them, or the machine-controller is about to: then there is none for now."""
    if not own or any(not _REVISION.fullmatch(one.revision) for one in own.values()):
        return None
    highest = max(int(one.revision) for one in own.values())
    newest = [one for one in own.values() if int(one.revision) == highest]
    same = [one for one in own.values() if one.template == deployment.template]
    return newest[0] if len(newest) == 1 and newest == same else None


def _replaced(old: Sequence[Amounts], size: Amounts, number: int) -> Amounts:
    """Of each resource what the smallest of the old machines take, so many of them: any of them may be the next to go."""
    taken = {name: sorted(min(one[name], size[name]) for one in old)[:number] for name in size}
    return Amounts({name: sum(least, ZERO) for name, least in taken.items()})


def _state(deployment: DeploymentFacts) -> str:
    return "it is being deleted" if deployment.deleting else "it is paused" if deployment.paused else "its strategy is another"


def _fits_in_the_end(deployment: DeploymentFacts, held: Iterable[Amounts], size: Amounts, room: Mapping[str, Room]) -> bool:
    own = sum(held, _NONE)
    wanted = times(size, deployment.replicas)
    taken = Amounts({name: one.used + one.reserved for name, one in room.items()})
    then = taken.beyond(own) + wanted
    return all(one.limit is None or then[name] <= one.limit for name, one in room.items() if wanted[name].nanos)
