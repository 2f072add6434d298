"""VirtualMachineInstanceMigrations: each has its turn, a pod on another node, the time that copying takes, and an end.

One worker, so that no two are begun in one place of those that are free: what was begun and is not in the cache yet is
remembered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from ullage.clock import Clock
from ullage.errors import BadInput
from ullage.kube.backoff import Backoff
from ullage.kube.builtin.core import PODS, Pod
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen, patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import BadRequest, Forbidden, Invalid, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import with_finalizer, without_finalizer
from ullage.kube.slices import Wiring
from ullage.standalone.world import calls
from ullage.standalone.world.controllers import migration_rules as rules
from ullage.standalone.world.controllers.migration_copying import TIME, Copying, copying, guest_memory
from ullage.standalone.world.controllers.migration_rules import (
    FINALIZER,
    Become,
    EndPod,
    HoldMigration,
    LeaveBe,
    MakeTarget,
    MigrationFacts,
    Plan,
    ReleaseMigration,
    RemoveMigration,
    Tell,
)
from ullage.standalone.world.launchers import (
    DOMAIN,
    MIGRATION,
    current_launcher,
    launcher_name,
    new_launcher,
    targets_of,
)
from ullage.standalone.world.lookup import BY_CONTROLLER
from ullage.standalone.world.migration_phases import FAILED, OVER, PENDING, RUNNING, SUCCEEDED, ends, is_final
from ullage.standalone.world.migrations import MigrationLookup
from ullage.vms.api.machines import INSTANCES, VirtualMachineInstance
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.api.migrations import VirtualMachineInstanceMigration as Migration
from ullage.vms.prices import Prices

REFUSED_AGAIN: Final = Backoff(first=1.0, cap=30.0)  # after the pod on the new node was refused

ENDED: Final = {
    SUCCEEDED: Reason("SuccessfulMigration", action="Migrate"),
    FAILED: Reason("FailedMigration", action="Migrate", type="Warning"),
}
REFUSED: Final = Reason("FailedCreate", action="Create", type="Warning")


class MigrationController:
    def __init__(
        self,
        client: Client,
        lookup: MigrationLookup,
        *,
        usual: float,
        prices: Prices,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._usual = usual
        self._prices = prices
        self._recorder = recorder
        self._clock = clock
        self._begun: dict[str, str] = {}  # the node that is left, by the migration's uid
        self._refusals: dict[str, int] = {}  # how often in a row, by the migration's uid

    async def reconcile(self, key: Key) -> Requeue | None:
        migration = self._lookup.migrations.get(key)
        if migration is None:
            return None
        try:
            facts = await self._gather(migration)
            return await self._act(facts, rules.plan_migration(facts))
        except NotFound:  # it went meanwhile
            return None

    # --- gather ---

    async def _gather(self, migration: Migration) -> MigrationFacts:
        meta = migration.metadata
        instance = await self._lookup.instance_of(migration)
        pods = self._lookup.storage.pods.by(BY_CONTROLLER, instance.metadata.uid) if instance is not None else []
        # Whoever may make pods may say of his own that it was made for this: the name counts, too.
        name = launcher_name(migration.spec.vmi_name, meta.uid)
        target = next((one for one in targets_of(meta.uid, pods) if one.metadata.name == name), None)
        facts = MigrationFacts(migration=migration, instance=instance, target=target, now=self._clock.now())
        siblings = self._lookup.of_instance(migration)
        if is_final(migration):
            later = [one for one in siblings if is_final(one) and rules.age(one) > rules.age(migration)]
            return dataclasses.replace(facts, superseded=len(later) >= rules.KEPT)
        rivals = [one for one in siblings if not is_final(one) and rules.age(one) < rules.age(migration)]
        return dataclasses.replace(
            facts,
            source=_source(instance, pods, target) if instance is not None else None,
            rival=rivals[0].metadata.name if rivals else "",
            has_turn=migration.status.phase == PENDING and migration in self.next_in_turn(),
            copying=await self._copying(facts) if migration.status.phase == RUNNING else None,
        )

    async def _copying(self, facts: MigrationFacts) -> Copying:
        instance = facts.instance
        if instance is None:
            return None
        body = await calls.read(self._client, INSTANCES, instance.metadata.name, instance.metadata.namespace)
        return copying(
            instance.metadata.annotations.get(TIME),
            usual=self._usual,
            memory=guest_memory(body.get("spec") or {}),
            settings=self._lookup.settings(),
        )

    def next_in_turn(self) -> list[Migration]:
        """Those that may have their pod now. One whose instance does not run yet holds up nobody."""
        found = [(one, self._lookup.left_by(one)) for one in self._lookup.migrations.items() if not is_final(one)]
        waiting = {one.metadata.uid for one, _ in found if one.status.phase in ("", PENDING)}
        self._begun = {uid: node for uid, node in self._begun.items() if uid in waiting}
        pending = [
            (one, node)
            for one, node in found
            if one.status.phase == PENDING and one.metadata.uid not in self._begun and self._lookup.is_running(one)
        ]
        active = [node for one, node in found if one.metadata.uid not in waiting]
        chosen = rules.turns(pending, [*active, *self._begun.values()], self._lookup.settings())
        return [one for one, _ in pending if one.metadata.uid in chosen]

    # --- act ---

    async def _act(self, facts: MigrationFacts, plan: Plan) -> Requeue | None:
        """What is written comes back by its own change."""
        migration = facts.migration
        match plan:
            case LeaveBe(after):
                return Requeue(after) if after is not None else None
            case HoldMigration():
                await self._finalizers(migration, with_finalizer(migration.metadata, FINALIZER).finalizers)
            case ReleaseMigration():
                await self._finalizers(migration, without_finalizer(migration.metadata, FINALIZER).finalizers)
            case RemoveMigration():
                await calls.delete(self._client, MIGRATIONS, migration.metadata)
            case EndPod(pod):
                await calls.delete(self._client, PODS, pod.metadata, at_once=True)
            case MakeTarget():
                return await self._make_target(facts)
            case Tell():
                await self._tell(facts, plan)
            case Become():
                await self._become(facts, plan)
        return None

    async def _finalizers(self, migration: Migration, wanted: Iterable[str]) -> None:
        await patch_seen(self._client, MIGRATIONS, migration, {"metadata": {"finalizers": list(wanted) or None}})

    async def _make_target(self, facts: MigrationFacts) -> Requeue | None:
        migration, instance = facts.migration, facts.instance
        if instance is None:
            return None
        body = await calls.read(self._client, INSTANCES, instance.metadata.name, instance.metadata.namespace)
        node, uid = instance.status.node_name, migration.metadata.uid
        try:
            pod = new_launcher(
                body, pricing=self._prices.of(migration.metadata.namespace), target_of=migration.metadata, avoid=node
            )
            await calls.create(self._client, PODS, pod)
        except (Forbidden, Invalid, BadRequest, BadInput) as error:
            return await self._refused(migration, str(error))
        self._begun[uid] = node
        self._refusals.pop(uid, None)
        return None

    async def _refused(self, migration: Migration, message: str) -> Requeue:
        """The pod, by a quota of the namespace or by whoever else may. Tried again, less and less often."""
        uid = migration.metadata.uid
        self._refusals[uid] = self._refusals.get(uid, 0) + 1
        status = rules.rejected(migration, message, now=self._clock.now())
        await patch_status(self._client, MIGRATIONS, migration, old=migration.status, new=status)
        self._recorder.record(MIGRATIONS, migration, REFUSED, note=f"Error creating pod: {message}")
        return Requeue(REFUSED_AGAIN.delay(self._refusals[uid]))

    async def _tell(self, facts: MigrationFacts, plan: Tell) -> None:
        instance = facts.instance
        if instance is None:
            return
        status = replace(instance.status, migration_state=plan.state)
        if plan.pod is not None:
            node = plan.pod.spec.node_name
            status = replace(status, node_name=node, active_pods={plan.pod.metadata.uid: node})
        await patch_status(self._client, INSTANCES, instance, old=instance.status, new=status)

    async def _become(self, facts: MigrationFacts, plan: Become) -> None:
        migration = facts.migration
        meta = migration.metadata
        if plan.phase == FAILED and facts.target is None:
            # The cache may not have the pod yet. Nobody would look for it later: what is over may go.
            name = launcher_name(migration.spec.vmi_name, meta.uid)
            if (late := await self._client.find(PODS, name, meta.namespace)) and late.metadata.labels.get(
                MIGRATION
            ) == meta.uid:
                await calls.delete(self._client, PODS, late.metadata, at_once=True)
        await patch_status(self._client, MIGRATIONS, migration, old=migration.status, new=rules.status_of(facts, plan))
        if plan.phase in OVER:
            self._refusals.pop(meta.uid, None)
            state = facts.state
            to = f" to node {state.target_node}" if state is not None else ""
            note = f"Migration failed: {plan.reason}" if plan.phase == FAILED else f"The instance was migrated{to}."
            self._recorder.record(MIGRATIONS, migration, ENDED[plan.phase], note=note)


def _source(instance: VirtualMachineInstance, pods: Iterable[Pod], target: Pod | None) -> Pod | None:
    """The pod that it leaves: the one that it runs in, until it runs in the new one; then the one that it says it left."""
    current = current_launcher(instance, pods)
    state = instance.status.migration_state
    if target is None or current is None or current.metadata.uid != target.metadata.uid or state is None:
        return current
    return next((one for one in pods if one.metadata.name == state.source_pod and not one.is_over), None)


def migration_controller(
    wiring: Wiring, lookup: MigrationLookup, *, recorder: Recorder, usual: float, prices: Prices
) -> Controller[Key]:
    """`usual` are the seconds that copying takes where nothing else is said."""
    made = MigrationController(wiring.client, lookup, usual=usual, prices=prices, recorder=recorder, clock=wiring.clock)
    storage, migrations = lookup.storage, lookup.migrations

    def of_pod(pod: Pod) -> Iterable[Key]:
        name = pod.metadata.annotations.get(DOMAIN)
        return [key_of(one) for one in lookup.of_name(Key(pod.metadata.namespace, name))] if name else ()

    def after(ended: Migration) -> Iterable[Key]:
        """A place is free, one of the same instance may go on, or too many are there to be seen."""
        return [key_of(one) for one in (*made.next_in_turn(), *lookup.of_instance(ended))]

    sources: list[Source[Any, Key]] = [
        own(migrations),
        Source(migrations, after, when=ends),
        Source(storage.instances, lambda one: [key_of(each) for each in lookup.of_name(key_of(one))]),
        Source(storage.pods, of_pod),
        Source(lookup.kubevirts, lambda one: [key_of(each) for each in migrations.items() if not is_final(each)]),
    ]
    return Controller("migrations", sources, made.reconcile, workers=1, clock=wiring.clock, metrics=wiring.metrics)
