"""MachineSets: they make and delete Machines, as machine-controller does.

A refusal is told in an Event on the set and nowhere in its status. Each try asks for all Machines that are missing. A try that
failed is made again after a back-off, and at once when the set or one of its Machines changes.

Machines get their names from the API server, so one that was made and is not in the cache yet is remembered: otherwise another
would be made in its place. It is memory only: a new process has read what is there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ullage.kube.backoff import Backoff
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.codec import collection_path
from ullage.kube.client.conditional import patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source, own, owned
from ullage.kube.errors import ApiError, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import Json, is_deleting, owner_reference
from ullage.kube.slices import Wiring
from ullage.projects.api.machines import MACHINE_SETS, MACHINES, Machine, MachineSet, MachineSetStatus
from ullage.projects.machines.reading import set_of
from ullage.standalone.world import calls

# A MachineSet: how many Machines it lacks, which of them are too many, and what its status says.


DEFAULT_REPLICAS: Final = 1  # of a set that says nothing


@dataclass(frozen=True, slots=True)
class MachineSetPlan:
    """`create` is how many more there are to be."""

    status: MachineSetStatus
    create: int = 0
    delete: tuple[Machine, ...] = ()


def plan_set(found: MachineSet, machines: Sequence[Machine], *, unseen: Collection[str] = ()) -> MachineSetPlan | None:
    """None: it is being deleted. `machines` are those that it controls, `unseen` the names of those that were made a moment
    ago and are not among them yet. One that is being deleted is replaced at once, as machine-controller does."""
    if is_deleting(found.metadata):
        return None
    living = [one for one in machines if not is_deleting(one.metadata)]
    wanted = DEFAULT_REPLICAS if found.spec.replicas is None else max(0, found.spec.replicas)
    missing = wanted - len(living) - len(unseen)
    ready = sum(one.status.node_ref is not None for one in living)
    return MachineSetPlan(
        MachineSetStatus(
            replicas=len(living),
            fully_labeled_replicas=len(living),  # all have the labels of the template that they were made from
            ready_replicas=ready,
            available_replicas=ready,
            observed_generation=found.metadata.generation,
        ),
        create=max(0, missing),
        delete=tuple(_surplus(living, max(0, len(living) - wanted))),
    )


def _surplus(living: Sequence[Machine], count: int) -> list[Machine]:
    """First those that are no Node yet, then the newest: the same ones however often it is asked."""

    def order(one: Machine) -> tuple[bool, str, str]:
        return one.status.node_ref is None, one.metadata.creation_timestamp or "", one.metadata.name

    return sorted(living, key=order, reverse=True)[:count]


def failure(refusals: Sequence[str]) -> str:
    """What machine-controller says in its Event when Machines were refused: all reasons, also equal ones."""
    return f"failed to sync Machineset replicas: {'; '.join(refusals)}"


def machine_for(found: MachineSet, template: Any) -> Json:
    """The next Machine, from the whole `spec.template` as the API has it: our types know only a part of that."""
    template = template if isinstance(template, dict) else {}
    meta = template.get("metadata") if isinstance(template.get("metadata"), dict) else {}
    return {
        "apiVersion": MACHINES.api_version,
        "kind": MACHINES.kind,
        "metadata": {
            "generateName": f"{found.metadata.name}-",
            "namespace": found.metadata.namespace,
            "labels": meta.get("labels") or {},
            "annotations": meta.get("annotations") or {},
            "ownerReferences": [owner_reference(MACHINE_SETS, found.metadata, controller=True)],
        },
        "spec": template.get("spec") or {},
    }


AFTER_REFUSAL: Final = Backoff(first=0.005, cap=1000.0)  # controller-runtime's, which machine-controller has
RESYNC: Final = 300.0  # seconds; machine-controller looks at every set again so often
BY_SET: Final = "set"
FAILED: Final = Reason("ReconcileError", action="Reconcile", type="Warning")  # the only Event of a MachineSet


class MachineSetController:
    def __init__(
        self,
        client: Client,
        *,
        sets: Cache[MachineSet],
        machines: Cache[Machine],
        recorder: Recorder,
        backoff: Backoff = AFTER_REFUSAL,
    ) -> None:
        self._client = client
        self._sets = sets
        self._machines = machines
        self._recorder = recorder
        self._backoff = backoff
        self._failures: dict[Key, int] = {}  # in a row
        self._unseen: dict[Key, set[str]] = {}

    async def reconcile(self, key: Key) -> Requeue | None:
        found = self._sets.get(key)
        if found is None:
            self._failures.pop(key, None)
            self._unseen.pop(key, None)
            return None
        unseen = await self._still_unseen(key)
        plan = plan_set(found, self._machines.by(BY_SET, found.metadata.uid), unseen=unseen)
        if plan is None:
            return None
        try:
            for machine in plan.delete:
                await calls.delete(self._client, MACHINES, machine.metadata)
            refusals = await self._create(found, plan.create)
            await patch_status(self._client, MACHINE_SETS, found, old=found.status, new=plan.status)
        except NotFound:  # it went meanwhile
            return None
        return self._again(found, refusals)

    def _again(self, found: MachineSet, refusals: list[str]) -> Requeue | None:
        """Tells what was refused. Returns the time until the next try, which doubles with each failure in a row."""
        key = key_of(found)
        if not refusals:
            self._failures.pop(key, None)
            return None
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._recorder.record(MACHINE_SETS, found, FAILED, note=failure(refusals))
        return Requeue(min(self._backoff.delay(failures), RESYNC))

    async def _still_unseen(self, key: Key) -> set[str]:
        """Those that were made and that the cache does not have. One that went before the cache had it is not waited for."""
        names = self._unseen.get(key, set())
        there = {name for name in names if self._machines.get(Key(key.namespace, name)) is not None}
        names -= there
        names -= {name for name in names if await self._client.find(MACHINES, name, key.namespace) is None}
        return names

    async def _create(self, found: MachineSet, count: int) -> list[str]:
        """Asks for so many Machines, one after the other. Returns why some were refused."""
        if not count:
            return []
        key = key_of(found)
        whole = await calls.read(self._client, MACHINE_SETS, key.name, key.namespace)
        body = machine_for(found, whole["spec"].get("template"))
        refusals: list[str] = []
        for _ in range(count):
            try:
                name = await self._post(body)
            except ApiError as error:
                if isinstance(error, NotFound) or not error.code:  # no place for it any more, or no answer
                    raise
                refusals.append(error.message)
                continue
            if self._machines.get(Key(key.namespace, name)) is None:
                self._unseen.setdefault(key, set()).add(name)
        return refusals

    async def _post(self, body: Json) -> str:
        path = collection_path(MACHINES, body["metadata"]["namespace"], needed=True)
        made = msgspec.json.decode(await self._client.request("POST", path, body=msgspec.json.encode(body)))
        return str(made["metadata"]["name"])


def machine_set_controller(wiring: Wiring, *, recorder: Recorder) -> Controller[Key]:
    sets, machines = wiring.cache(MACHINE_SETS), wiring.cache(MACHINES)
    machines.index(BY_SET, lambda one: (owner,) if (owner := set_of(one.metadata)) else ())
    made = MachineSetController(wiring.client, sets=sets, machines=machines, recorder=recorder)
    sources: list[Source[Any, Key]] = [own(sets), owned(machines, by=MACHINE_SETS)]
    return Controller("machinesets", sources, made.reconcile, clock=wiring.clock, metrics=wiring.metrics)
