"""Start, stop, restart, pause: asked of KubeVirt where it serves them, and written into the VM where nobody does.

KubeVirt serves them as subresources (`subresources.kubevirt.io`) and decides itself what makes sense. On one machine nobody
serves these: what KubeVirt would write is written from here (`vms/lifecycle`), on condition that the VM is as it was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ullage.cli.common.session import Session
from ullage.cli.common.waiting import Failed, ProgressOutput, until
from ullage.cli.vm.options import Target
from ullage.cli.vm.reading import FoundMachine, find_machine, find_machines
from ullage.cli.vm.text import problem
from ullage.clock import Clock, SystemClock
from ullage.kube.client.client import Client
from ullage.kube.client.codec import object_path
from ullage.kube.errors import Conflict, Forbidden, NotFound
from ullage.kube.kinds import Kind, Object
from ullage.kube.objects import Json
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.lifecycle import ACTIONS, Change, NotPossible

SUBRESOURCES: Final = "subresources.kubevirt.io"
TRIES: Final = 5  # where somebody else writes at the same moment


@dataclass(frozen=True, slots=True)
class Power:
    """One of the actions: what is said of it, and what it leads to."""

    name: str
    begun: str
    would: str
    goal: str  # the VM's printableStatus
    is_another: bool = False  # afterwards not the same instance runs as before


POWER: Final[Mapping[str, Power]] = {
    "start": Power("start", "is starting", "would be started", "Running"),
    "stop": Power("stop", "is stopping", "would be stopped", "Stopped"),
    "restart": Power("restart", "is restarting", "would be restarted", "Running", is_another=True),
    "pause": Power("pause", "is being paused", "would be paused", "Paused"),
    "unpause": Power("unpause", "goes on", "would go on", "Running"),
}


async def act(session: Session, name: str, targets: Sequence[Target], *, dry_run: bool, timeout: float | None) -> None:
    """All are looked up before the first is changed. Without a timeout it does not wait."""
    power = POWER[name]
    served = await is_served(session.client)
    needed = not served or power.is_another
    before = await find_machines(session, targets, "nothing was changed", instances=needed)
    refused: list[str] = []
    begun: list[FoundMachine] = []
    for found in before:
        try:
            await (_ask if served else _write)(session, power, found, dry_run=dry_run)
        except (NotPossible, Conflict, Forbidden) as error:
            refused.append(str(error))
            continue
        begun.append(found)
        print(f"{found.shown} {f'{power.would} (dry run)' if dry_run else power.begun}", flush=True)
    if timeout is not None and not dry_run:
        for found in begun:
            await PowerWaiter(session, power, found).run(timeout)
    if refused:
        raise Failed("; ".join(refused))


async def is_served(client: Client) -> bool:
    """Whether KubeVirt answers for itself."""
    try:
        await client.request("GET", f"/apis/{SUBRESOURCES}/v1")
    except NotFound:
        return False
    return True


async def _ask(session: Session, power: Power, found: FoundMachine, *, dry_run: bool) -> None:
    kind: Kind[Any] = INSTANCES if power.name in ("pause", "unpause") else VIRTUAL_MACHINES
    meta = found.machine.metadata
    path = object_path(kind, meta.name, meta.namespace, power.name).replace(f"/apis/{kind.group}/", f"/apis/{SUBRESOURCES}/", 1)
    body = msgspec.json.encode({"dryRun": ["All"]} if dry_run else {})
    try:
        await session.client.request("PUT", path, body=body)
    except NotFound as error:
        raise NotPossible(f"VM {found.target} does not run") from error


async def _write(session: Session, power: Power, found: FoundMachine, *, dry_run: bool) -> None:
    """What was read may be old by then: it is read and decided anew, a few times."""
    for left in reversed(range(TRIES)):
        change = ACTIONS[power.name](found.machine, found.instance)
        try:
            await _patch(session.client, found, change, dry_run=dry_run)
            return
        except Conflict:
            if not left:
                raise
        found = await find_machine(session, found.target, instance=True)


async def _patch(client: Client, found: FoundMachine, change: Change, *, dry_run: bool) -> None:
    patches: list[tuple[Kind[Any], Object | None, Json | None, str]] = [
        (VIRTUAL_MACHINES, found.machine, change.machine, ""),
        (VIRTUAL_MACHINES, found.machine, change.status, "status"),
        (INSTANCES, found.instance, change.instance, ""),
    ]
    for kind, obj, merge, subresource in patches:
        if merge is not None and obj is not None:
            meta = obj.metadata
            await client.patch(
                kind,
                meta.name,
                meta.namespace,
                merge=merge,
                subresource=subresource,
                dry_run=dry_run,
                uid=meta.uid,
                resource_version=meta.resource_version,
            )


class PowerWaiter:
    """Until one VM has come where it was sent."""

    def __init__(
        self,
        session: Session,
        power: Power,
        before: FoundMachine,
        *,
        output: ProgressOutput | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._session = session
        self._power = power
        self._before = before
        self._output = output or ProgressOutput()
        self._clock = clock or SystemClock()
        self._began = self._clock.monotonic()
        self._seen = ""

    async def run(self, timeout: float) -> None:
        with self._output.spinning(self._progress()):
            await until(self._look, timeout=timeout, late=lambda: self._late(timeout), clock=self._clock)

    async def _look(self) -> bool | None:
        found = await find_machine(self._session, self._before.target, instance=self._power.is_another)
        said = found.machine.status.printable_status or "not seen yet"
        told = f"{said}: {why}" if (why := problem(found.machine)) else said
        if told != self._seen:
            self._seen = told
            self._output.line(f"{found.target}: {told}")
        self._output.under_way(self._progress())
        return True if self._has_come(said) and self._is_another(found) else None

    def _has_come(self, word: str) -> bool:
        """One that is to start paused has started when it is."""
        return word == self._power.goal or (word == "Paused" and self._power.name in ("start", "restart"))

    def _is_another(self, found: FoundMachine) -> bool:
        """After a restart it is not the one that ran before."""
        old, new = self._before.instance, found.instance
        return not self._power.is_another or old is None or (new is not None and new.metadata.uid != old.metadata.uid)

    def _progress(self) -> str:
        waited = self._clock.monotonic() - self._began
        return (
            f"{self._before.target} is {self._seen or 'not seen yet'}; waiting until it is {self._power.goal}, {waited:.0f} s"
        )

    def _late(self, timeout: float) -> str:
        return (
            f"not {self._power.goal} within {timeout:g} s: VM {self._before.target} is {self._seen or 'not seen yet'}; "
            f"nothing was stopped, look at it with: ullage vm list {self._before.target} -o wide"
        )
