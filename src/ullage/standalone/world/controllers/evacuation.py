"""Nodes that are being drained: makes the migrations of their instances. What refuses one is asked again, less and less often.

One worker, as with migrations: the places that are free are those of the whole cluster. What is refused is only remembered
here; another process asks at once, which does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.clock import Clock
from ullage.kube.builtin.core import Node
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import BadRequest, Forbidden, Invalid, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.slices import Wiring
from ullage.standalone.world import calls
from ullage.standalone.world.controllers import evacuation_rules as rules
from ullage.standalone.world.controllers.evacuation_rules import EvacuationFacts, Full, RefusedMigration
from ullage.standalone.world.migration_phases import ends, is_final
from ullage.standalone.world.migrations import MigrationLookup
from ullage.vms.api.machines import INSTANCES, VirtualMachineInstance
from ullage.vms.api.migrations import MIGRATIONS

ON_NODE: Final = "node"  # how instances are found: by the node that they are on
MADE: Final = Reason("SuccessfulCreate", action="Evacuate")
REFUSED: Final = Reason("FailedCreate", action="Evacuate", type="Warning")


class EvacuationController:
    def __init__(self, client: Client, lookup: MigrationLookup, *, recorder: Recorder, clock: Clock) -> None:
        self._client = client
        self._lookup = lookup
        self._recorder = recorder
        self._clock = clock
        self._refusals: dict[str, RefusedMigration] = {}  # by the instance's uid
        self._full: dict[str, Full] = {}  # by namespace
        self._begun: dict[str, Key] = {}  # the migration of an instance, by its uid, until it is in the cache

    async def reconcile(self, key: Key) -> Requeue | None:
        node = self._lookup.storage.nodes.get(key)
        if node is None:
            return None
        facts = self._gather(node)
        plan = rules.plan_evacuation(facts)
        waits = [plan.after] if plan.after is not None else []
        for instance in plan.leave:
            if instance.metadata.namespace not in self._full:
                await self._evacuate(instance, facts)
            if (full := self._full.get(instance.metadata.namespace)) is not None:
                waits.append(max(0.0, full.due - facts.moment))
        return Requeue(min(waits)) if waits else None

    def _gather(self, node: Node) -> EvacuationFacts:
        lookup = self._lookup
        instances = lookup.storage.instances.by(ON_NODE, node.metadata.name)
        migrations = {one.metadata.uid: lookup.of_name(key_of(one)) for one in instances}
        moment = self._clock.monotonic()
        self._forget(moment)
        kubevirt = lookup.kubevirt()
        strategy = kubevirt.spec.configuration.eviction_strategy if kubevirt is not None else None
        return EvacuationFacts(
            node=node,
            instances=instances,
            migrations=migrations,
            begun=frozenset(self._begun),
            underway=len(self._underway()),
            refusals=self._refusals,
            full={namespace: full.due for namespace, full in self._full.items()},
            settings=lookup.settings(),
            strategy=strategy or rules.LIVE,
            now=self._clock.now(),
            moment=moment,
        )

    def _underway(self, namespace: str = "") -> set[Key]:
        """All of them, or those of a namespace; those too that were just made."""
        found = {key_of(one) for one in self._lookup.migrations.items() if not is_final(one)} | set(self._begun.values())
        return {one for one in found if one.namespace == namespace} if namespace else found

    def _forget(self, moment: float) -> None:
        """What the caches show by now, whoever is gone, and namespaces that may have room again."""
        self._begun = {uid: key for uid, key in self._begun.items() if self._lookup.migrations.get(key) is None}
        if self._refusals:
            there = {one.metadata.uid for one in self._lookup.storage.instances.items()}
            self._refusals = {uid: refusal for uid, refusal in self._refusals.items() if uid in there}
        self._full = {
            namespace: full
            for namespace, full in self._full.items()
            if moment < full.due and len(self._underway(namespace)) >= full.underway
        }

    async def _evacuate(self, instance: VirtualMachineInstance, facts: EvacuationFacts) -> None:
        uid, namespace = instance.metadata.uid, instance.metadata.namespace
        body = rules.new_migration(instance, facts.node.metadata.name, before=facts.migrations[uid])
        try:
            await calls.create(self._client, MIGRATIONS, body)
        except (Forbidden, Invalid, BadRequest) as error:
            times = self._refusals[uid].times + 1 if uid in self._refusals else 1
            due = facts.moment + rules.REFUSED_AGAIN.delay(times)
            self._refusals[uid] = RefusedMigration(times, due)
            self._full[namespace] = Full(len(self._underway(namespace)), due)
            self._recorder.record(INSTANCES, instance, REFUSED, note=f"Error creating a migration: {error}")
            return
        except NotFound:  # its namespace is going
            return
        self._refusals.pop(uid, None)
        self._begun[uid] = Key(namespace, body["metadata"]["name"])
        note = f"Created migration {body['metadata']['name']}: node {facts.node.metadata.name} is being drained"
        self._recorder.record(INSTANCES, instance, MADE, note=note)


def evacuation_controller(wiring: Wiring, lookup: MigrationLookup, *, recorder: Recorder) -> Controller[Key]:
    storage = lookup.storage
    storage.instances.index(ON_NODE, lambda one: (one.status.node_name,) if one.status.node_name else ())
    made = EvacuationController(wiring.client, lookup, recorder=recorder, clock=wiring.clock)

    def of_instance(instance: VirtualMachineInstance) -> Iterable[Key]:
        return (Key("", instance.status.node_name),) if instance.status.node_name else ()

    def drained(_: object) -> Iterable[Key]:
        """When a place is free it is free for all of them."""
        taint = lookup.settings().drain_taint
        asked = {one.status.evacuation_node_name for one in storage.instances.items()}
        return [key_of(one) for one in storage.nodes.items() if rules.is_drained(one, taint) or one.metadata.name in asked]

    sources: list[Source[Any, Key]] = [
        own(storage.nodes),
        Source(storage.instances, of_instance),
        Source(lookup.migrations, drained, when=ends),
        Source(lookup.kubevirts, drained),
    ]
    return Controller("evacuations", sources, made.reconcile, workers=1, clock=wiring.clock, metrics=wiring.metrics)
