"""`ullage vm migrate`: makes the object that asks for a move to another node, and tells how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ullage.cli.common.session import NotInstalled, Session
from ullage.cli.common.text import plain
from ullage.cli.common.waiting import Failed, ProgressOutput, until
from ullage.cli.vm.backups import name_at
from ullage.cli.vm.options import Target
from ullage.cli.vm.reading import FoundMachine, find_machines
from ullage.clock import Clock, SystemClock
from ullage.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid
from ullage.kube.kinds import Meta
from ullage.vms.api.migrations import MIGRATIONS, MigrationSpec, VirtualMachineInstanceMigration
from ullage.vms.lifecycle import NotPossible

ENDED: Final = ("Succeeded", "Failed")


async def migrate(
    session: Session, targets: Sequence[Target], *, dry_run: bool, timeout: float | None, clock: Clock | None = None
) -> None:
    """All are looked up before the first is asked to move. Without a timeout it does not wait."""
    clock = clock or SystemClock()
    machines = await find_machines(session, targets, "nothing was changed", instances=True)
    if not await session.client.served(MIGRATIONS):
        raise NotInstalled(f"this cluster does not serve {MIGRATIONS.name}: VMs cannot be moved here")
    refused: list[str] = []
    begun: list[MigrationWaiter] = []
    for found in machines:
        try:
            await _require_at_rest(session, found)
            made = await _make(session, found, dry_run=dry_run, clock=clock)
        except (NotPossible, AlreadyExists, Conflict, Forbidden, Invalid) as error:
            refused.append(str(error))
            continue
        what = "would move to another node (dry run)" if dry_run else "is moving to another node"
        print(f"{found.shown} {what}: {MIGRATIONS.kind.lower()}.{MIGRATIONS.group}/{made.metadata.name}", flush=True)
        begun.append(MigrationWaiter(session, found.target, made, clock=clock))
    if timeout is not None and not dry_run:
        for waiter in begun:
            try:
                await waiter.run(timeout)
            except Failed as error:
                refused.append(str(error))
    if refused:
        raise Failed("; ".join(refused))


async def _require_at_rest(session: Session, found: FoundMachine) -> None:
    """KubeVirt refuses these by itself; where it does not run nobody would."""
    instance, place = found.instance, found.target
    if instance is None or instance.status.phase != "Running" or instance.metadata.deletion_timestamp is not None:
        raise NotPossible(f"VM {place} does not run: only a VM that runs can move to another node")
    under_way = [one for one in (await session.client.list(MIGRATIONS, place.namespace)).items if _moves(one, place.name)]
    if under_way:
        first = under_way[0]
        since = f", which is {first.status.phase}" if first.status.phase else ""
        raise NotPossible(
            f"VM {place} is moving already, by {first.metadata.name}{since}: wait until it has ended, or end it with: "
            f"kubectl delete vmim {first.metadata.name} -n {place.namespace}"
        )


def _moves(migration: VirtualMachineInstanceMigration, name: str) -> bool:
    return migration.spec.vmi_name == name and migration.status.phase not in ENDED


async def _make(session: Session, found: FoundMachine, *, dry_run: bool, clock: Clock) -> VirtualMachineInstanceMigration:
    place = found.target
    meta = Meta(name=name_at(f"{place.name}-migration", clock.now()), namespace=place.namespace)
    wanted = VirtualMachineInstanceMigration(metadata=meta, spec=MigrationSpec(vmi_name=place.name))
    return await session.client.create(MIGRATIONS, wanted, dry_run=dry_run)


class MigrationWaiter:
    """Until a VM has moved; raises with the reason where it has not."""

    def __init__(
        self,
        session: Session,
        target: Target,
        made: VirtualMachineInstanceMigration,
        *,
        clock: Clock,
        output: ProgressOutput | None = None,
    ) -> None:
        self._session = session
        self._target = target
        self._made = made
        self._clock = clock
        self._output = output or ProgressOutput()
        self._began = clock.monotonic()
        self._seen = ""

    async def run(self, timeout: float) -> None:
        with self._output.spinning(self._progress()):
            await until(self._look, timeout=timeout, late=lambda: self._late(timeout), clock=self._clock)

    async def _look(self) -> bool | None:
        meta = self._made.metadata
        found = await self._session.client.find(MIGRATIONS, meta.name, meta.namespace)
        if found is None or found.metadata.uid != meta.uid:
            raise Failed(f"migration {meta.name} is gone: VM {self._target} stays where it was")
        phase, state = found.status.phase or "Pending", found.status.migration_state
        if phase == "Failed":
            why = plain(state.failure_reason) if state is not None else ""
            raise Failed(f"migration {meta.name} has failed{f': {why}' if why else ''}; VM {self._target} stays where it was")
        told = phase
        if phase == "Succeeded":
            where = f", runs on {plain(state.target_node)}" if state is not None and state.target_node else ""
            told = f"{phase}{where} ({self._clock.monotonic() - self._began:.1f} s)"
        elif why := _waits_for(found):
            told = f"{phase}: {why}"
        if told != self._seen:
            self._seen = told
            self._output.line(f"{self._target}: {told}")
        self._output.under_way(self._progress())
        return True if phase == "Succeeded" else None

    def _progress(self) -> str:
        waited = self._clock.monotonic() - self._began
        return f"{self._target} is moving to another node: {self._seen or 'not seen yet'}, {waited:.0f} s"

    def _late(self, timeout: float) -> str:
        meta = self._made.metadata
        return (
            f"not moved within {timeout:g} s: VM {self._target}: {self._seen or 'not seen yet'}; nothing was stopped, "
            f"look at it with: kubectl describe vmim {meta.name} -n {meta.namespace}"
        )


def _waits_for(migration: VirtualMachineInstanceMigration) -> str:
    """What keeps it from going on, where something does: its target is refused, for example."""
    held = (one for one in migration.status.conditions if one.status == "True" and "Rejected" in one.type)
    return next((plain(one.message or one.reason) for one in held), "")
