"""`ullage vm backup` and `ullage vm restore`: make the object that asks for it, and tell how far it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeVar

import msgspec

from ullage.cli.common.listing import Table, shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.session import Missing, NotInstalled, Session
from ullage.cli.common.text import NONE, age, plain
from ullage.cli.common.waiting import Failed, ProgressOutput, until
from ullage.cli.vm.options import Target
from ullage.cli.vm.reading import find_machine
from ullage.clock import Clock, SystemClock
from ullage.kube.client.codec import collection_path
from ullage.kube.kinds import Kind, decode_as_go
from ullage.kube.objects import Condition, Json, find_condition
from ullage.vms.api.backups import VM_BACKUPS, VirtualMachineBackup
from ullage.vms.api.machines import VIRTUAL_MACHINES
from ullage.vms.api.restores import VM_RESTORES, VirtualMachineRestore
from ullage.vms.claims import volumes_of

Made = TypeVar("Made", VirtualMachineBackup, VirtualMachineRestore)
WORDS: Final = {VM_BACKUPS.name: "backup", VM_RESTORES.name: "restore"}
LONGEST: Final = 220  # characters of a name, before the time is put after it


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeOptions:
    """What both commands can be told. Without a timeout it is not waited for; with an `output` the object is all that is
    printed."""

    name: str | None = None
    dry_run: bool = False
    timeout: float | None = None
    output: OutputFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VmRestoreOptions:
    """Without `new_vm` the VM that the backup is of is brought back."""

    new_vm: str | None = None
    keep_volumes: bool = False
    keep_mac_address: bool = False
    start: bool | None = None


def name_at(base: str, now: datetime) -> str:
    """A name that tells when it was made."""
    return f"{base[:LONGEST].rstrip('-.')}-{now:%Y%m%d-%H%M%S}"


async def back_up(
    session: Session,
    target: Target,
    *,
    type: Literal["backup", "snapshot"],
    make: MakeOptions,
    clock: Clock | None = None,
) -> None:
    clock = clock or SystemClock()
    await _require(session, VM_BACKUPS)
    found = await find_machine(session, target)
    place = found.target
    if not list(volumes_of(found.machine)):
        print(f"ullage: note: VM {place} has no volume with a claim: only its spec is kept", file=sys.stderr)
    meta = {"name": make.name or name_at(place.name, clock.now()), "namespace": place.namespace}
    await _make(session, VM_BACKUPS, meta, {"source": _reference(place.name), "type": type}, make=make, clock=clock)


async def restore(
    session: Session, target: Target, options: VmRestoreOptions, *, make: MakeOptions, clock: Clock | None = None
) -> None:
    clock = clock or SystemClock()
    await _require(session, VM_RESTORES)
    place = target.within(session.namespace)
    backup = await session.client.find(VM_BACKUPS, place.name, place.namespace)
    if backup is None:
        raise Missing(f"backup {place.name} does not exist in namespace {place.namespace}")
    meta = {"name": make.name or name_at(f"{place.name}-restore", clock.now()), "namespace": place.namespace}
    spec = {
        "target": _reference(options.new_vm or backup.spec.source.name),
        "virtualMachineBackupName": place.name,
        "virtualMachineBackupNamespace": place.namespace,
        "newVM": options.new_vm is not None,
        "deletionPolicy": "retain" if options.keep_volumes else "delete",
        "keepMacAddress": options.keep_mac_address,
        **({} if options.start is None else {"start": options.start}),  # Harvester's own definition has no such field
    }
    await _make(session, VM_RESTORES, meta, spec, make=make, clock=clock)


def _reference(name: str) -> Json:
    return {"apiGroup": VIRTUAL_MACHINES.group, "kind": VIRTUAL_MACHINES.kind, "name": name}


async def _require(session: Session, kind: Kind[Any]) -> None:
    if not await session.client.served(kind):
        raise NotInstalled(f"this cluster does not serve {kind.name}: VMs cannot be backed up or restored here")


async def _make(session: Session, kind: Kind[Made], meta: Json, spec: Json, *, make: MakeOptions, clock: Clock) -> None:
    """Every field is sent: Harvester's own definitions have no defaults."""
    body = msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec})
    path = collection_path(kind, meta["namespace"], needed=True)
    query = {"dryRun": "All"} if make.dry_run else {}
    answer = await session.client.request("POST", path, query=query, body=body)
    made = decode_as_go(answer, msgspec.json.Decoder(kind.type))
    if make.output is None:
        became = "would be created (dry run)" if make.dry_run else "created"
        print(f"{kind.kind.lower()}.{kind.group}/{made.metadata.name} {became}", flush=True)
    if make.timeout is not None and not make.dry_run:
        output = ProgressOutput(None if make.output is None else sys.stderr)
        made = await Waiter(session, kind, made, output=output, clock=clock).run(make.timeout)
    if make.output is not None:
        print(shown([made], layout(kind), make.output, now=clock.now(), single=True))


def layout(kind: Kind[Made]) -> Table[Made]:
    def cells(one: Made, now: datetime) -> tuple[str, ...]:
        return one.metadata.name, str(one.status.progress), age(one.metadata.creation_timestamp, now)

    return Table(
        head=("NAME", "PROGRESS", "AGE"),
        cells=cells,
        name=lambda one: f"{kind.kind.lower()}.{kind.group}/{one.metadata.name}",
        uid=lambda one: one.metadata.uid,
        body=lambda one: {"apiVersion": kind.api_version, "kind": kind.kind, **msgspec.to_builtins(one)},
        state="PROGRESS",
    )


class Waiter:
    """Until a backup or a restore is complete; raises with the reason where it has failed, or is gone."""

    def __init__(self, session: Session, kind: Kind[Any], made: Any, *, output: ProgressOutput, clock: Clock) -> None:
        self._session = session
        self._kind = kind
        self._made = made
        self._output = output
        self._clock = clock
        self._began = clock.monotonic()
        self._told = ""

    async def run(self, timeout: float) -> Any:
        with self._output.spinning(self._progress()):
            return await until(self._look, timeout=timeout, late=lambda: self._late(timeout), clock=self._clock)

    async def _look(self) -> Any:
        meta = self._made.metadata
        found = await self._session.client.find(self._kind, meta.name, meta.namespace)
        if found is None or found.metadata.uid != meta.uid:
            raise Failed(f"{self._word} {meta.name} is gone")
        conditions: Sequence[Condition] = found.status.conditions
        if failed := _holding(conditions, "Failed"):
            raise Failed(f"{self._word} {meta.name} has failed: {_said(failed)}")
        ready = _holding(conditions, "Ready")
        told = _said(ready or find_condition(tuple(conditions), "Ready"))
        if told and told != self._told:
            self._told = told
            took = f" ({self._clock.monotonic() - self._began:.1f} s)" if ready else ""
            self._output.line(f"{meta.name}: {told}{took}")
        self._output.under_way(self._progress(found.status.progress))
        return found if ready else None

    @property
    def _word(self) -> str:
        return WORDS[self._kind.name]

    def _progress(self, percent: int = 0) -> str:
        waited = self._clock.monotonic() - self._began
        return f"{self._word} {self._made.metadata.name}: {percent} %, {waited:.0f} s"

    def _late(self, timeout: float) -> str:
        meta = self._made.metadata
        return (
            f"not complete within {timeout:g} s: {self._word} {meta.name}: {self._told or NONE}; nothing was stopped, "
            f"look at it with: kubectl describe {self._kind.short_names[0]} {meta.name} -n {meta.namespace}"
        )


def _holding(conditions: Sequence[Condition], type: str) -> Condition | None:
    found = find_condition(tuple(conditions), type)
    return found if found is not None and found.status == "True" else None


def _said(condition: Condition | None) -> str:
    return plain(condition.message or condition.reason) if condition is not None else ""
