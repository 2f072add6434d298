"""MachineSets: they make and delete Machines, and say what stands in their way.

Machines get their names from the API server, so one that was made and is not in the cache yet is remembered: otherwise another
would be made in its place. It is memory only: a new process has read what is there.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ullage.clock import Clock
from ullage.kube.backoff import Backoff
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.codec import collection_path
from ullage.kube.client.conditional import patch_seen, patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source, own, owned
from ullage.kube.errors import ApiError, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import Json
from ullage.kube.slices import Wiring
from ullage.projects.api.machines import MACHINE_SETS, MACHINES, Machine, MachineSet
from ullage.projects.machines.reading import set_of
from ullage.standalone.world import calls
from ullage.standalone.world.controllers.machine_set import rules
from ullage.standalone.world.refusals import Refusal, Refusals

AFTER_REFUSAL: Final = Backoff(first=0.5, cap=15.0)  # nothing here tells when a project has room again
BY_SET: Final = "set"
FAILED: Final = "CreateError"  # status.errorReason, as machine-controller has it
CREATED: Final = Reason("SuccessfulCreate", action="Create")
DELETED: Final = Reason("SuccessfulDelete", action="Delete")
NOT_CREATED: Final = Reason("FailedCreate", action="Create", type="Warning")


class MachineSetController:
    def __init__(
        self, client: Client, *, sets: Cache[MachineSet], machines: Cache[Machine], recorder: Recorder, clock: Clock
    ) -> None:
        self._client = client
        self._sets = sets
        self._machines = machines
        self._recorder = recorder
        self._clock = clock
        self._refusals = Refusals(AFTER_REFUSAL)
        self._unseen: dict[Key, set[str]] = {}

    async def reconcile(self, key: Key) -> Requeue | None:
        found = self._sets.get(key)
        if found is None:
            self._refusals.end(key)
            self._unseen.pop(key, None)
            return None
        unseen = await self._still_unseen(key)
        plan = rules.plan_set(found, self._machines.by(BY_SET, found.metadata.uid), unseen=unseen)
        if plan is None:
            return None
        try:
            for machine in plan.delete:
                await self._delete(found, machine)
            refusal = await self._create(found, plan.create)
            await self._show(found, plan, refusal)
        except NotFound:  # it went meanwhile
            return None
        return Requeue(max(0.0, refusal.until - self._clock.monotonic())) if refusal is not None else None

    async def _still_unseen(self, key: Key) -> set[str]:
        """Those that were made and that the cache does not have. One that went before the cache had it is not waited for."""
        names = self._unseen.get(key, set())
        there = {name for name in names if self._machines.get(Key(key.namespace, name)) is not None}
        names -= there
        names -= {name for name in names if await self._client.find(MACHINES, name, key.namespace) is None}
        return names

    async def _create(self, found: MachineSet, count: int) -> Refusal | None:
        """One after the other, up to the first that is refused."""
        key, about = key_of(found), found.metadata.generation
        if not count:
            self._refusals.end(key)
            return None
        if refusal := self._refusals.still(key, self._clock.monotonic(), about=about):
            return refusal
        whole = await calls.read(self._client, MACHINE_SETS, key.name, key.namespace)
        body = rules.machine_for(found, whole["spec"].get("template"))
        for _ in range(count):
            try:
                name = await self._post(body)
            except ApiError as error:
                if isinstance(error, NotFound) or not error.code:  # no place for it any more, or no answer
                    raise
                said = f"the Machine was refused: {error.message}"
                if said != self._refusals.said(key):
                    self._recorder.record(MACHINE_SETS, found, NOT_CREATED, note=f"Error creating machine: {error.message}")
                return self._refusals.add(key, said, self._clock.monotonic(), about=about)
            self._refusals.end(key)
            if self._machines.get(Key(key.namespace, name)) is None:
                self._unseen.setdefault(key, set()).add(name)
            self._recorder.record(MACHINE_SETS, found, CREATED, note=f"Created machine {name}")
        return None

    async def _post(self, body: Json) -> str:
        path = collection_path(MACHINES, body["metadata"]["namespace"], needed=True)
        made = msgspec.json.decode(await self._client.request("POST", path, body=msgspec.json.encode(body)))
        return str(made["metadata"]["name"])

    async def _delete(self, found: MachineSet, machine: Machine) -> None:
        await calls.delete(self._client, MACHINES, machine.metadata)
        self._recorder.record(MACHINE_SETS, found, DELETED, note=f"Deleted machine {machine.metadata.name}")

    async def _show(self, found: MachineSet, plan: rules.MachineSetPlan, refusal: Refusal | None) -> None:
        """The figures, and what was said last of a Machine that could not be made."""
        written = await patch_status(self._client, MACHINE_SETS, found, old=found.status, new=plan.status) or found
        whole = await calls.read(self._client, MACHINE_SETS, found.metadata.name, found.metadata.namespace)
        shown = (whole.get("status") or {}).get("errorMessage")
        wanted = refusal.message if refusal is not None else None
        if shown != wanted:
            change = {"errorReason": FAILED if wanted else None, "errorMessage": wanted}
            await patch_seen(self._client, MACHINE_SETS, written, {"status": change}, subresource="status")


def machine_set_controller(wiring: Wiring, *, recorder: Recorder) -> Controller[Key]:
    sets, machines = wiring.cache(MACHINE_SETS), wiring.cache(MACHINES)
    machines.index(BY_SET, lambda one: (owner,) if (owner := set_of(one.metadata)) else ())
    made = MachineSetController(wiring.client, sets=sets, machines=machines, recorder=recorder, clock=wiring.clock)
    sources: list[Source[Any, Key]] = [own(sets), owned(machines, by=MACHINE_SETS)]
    return Controller("machinesets", sources, made.reconcile, clock=wiring.clock, metrics=wiring.metrics)
