"""VirtualMachineInstanceMigrations: stamped with what the instance costs that moves, and booked on the share kept for them.

It makes no difference who asks: KubeVirt itself does where a node is emptied, or a machine is given more while it runs. A
migration takes its room until it has ended, well or not, or is deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ullage.errors import BadInput
from ullage.headroom.accounts import MAINTENANCE, stamp_for
from ullage.headroom.cost import instance_cost, read_cost
from ullage.headroom.counting import FINISHED, is_finished
from ullage.headroom.settings import Settings
from ullage.headroom.texts import migrations_step, refusal_text
from ullage.headroom.webhook import marks
from ullage.headroom.webhook.marks import MARKS_DIFFER, NEW, differs, field, one_of
from ullage.kube.client.interface import Finder
from ullage.kube.errors import Cause
from ullage.kube.identities import is_own
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.ledger.amounts import Amounts
from ullage.ledger.charging.registry import Charged
from ullage.ledger.charging.stamps import COST, STAMP, Marks, marked
from ullage.vms.api.machines import WHOLE_INSTANCES, WholeInstance
from ullage.vms.api.migrations import MIGRATIONS, VirtualMachineInstanceMigration
from ullage.vms.prices import Prices

FIELD: Final = "spec.vmiName"
_NONE: Final = "''"  # in CEL


@dataclass(frozen=True, slots=True)
class MigrationFault:
    problem: str
    reason: str = "FieldValueInvalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationFacts:
    """Of a migration that is to be made."""

    namespace: str
    names: str
    instance: WholeInstance | None = None


def _names_one(facts: MigrationFacts) -> MigrationFault | None:
    if facts.names:
        return None
    return MigrationFault(f"name the instance that is to move: kubectl get vmi -n {facts.namespace}", "FieldValueRequired")


def _runs(facts: MigrationFacts) -> MigrationFault | None:
    where = f"{facts.namespace}/{facts.names}"
    if facts.instance is None:
        said = f"VirtualMachineInstance {where} does not exist: a VM that does not run is where it is started next"
        return MigrationFault(said, "FieldValueNotFound")
    phase = facts.instance.status.phase
    return (
        MigrationFault(f"VirtualMachineInstance {where} has ended ({phase}): there is nothing to move")
        if phase in FINISHED
        else None
    )


UNCHANGED: Final = MigrationFault("it cannot be changed: delete the migration, and create another", "FieldValueForbidden")
RULES: Final[tuple[Callable[[MigrationFacts], MigrationFault | None], ...]] = (
    _names_one,
    _runs,  # one that comes later, of any size, must not find a migration that is paid for already
)


def review_migration(facts: MigrationFacts) -> MigrationFault | None:
    return next((found for rule in RULES if (found := rule(facts))), None)


class Migrations:
    def __init__(
        self, charged: Charged[VirtualMachineInstanceMigration], client: Finder, settings: Settings, prices: Prices
    ) -> None:
        self._charged = charged
        self._client = client
        self._settings = settings
        self._prices = prices

    async def mutate(self, review: Review) -> Decision:
        wanted = await self._marks(review)
        if isinstance(wanted, Decision):
            return wanted
        return Decision.allow() if wanted is None else marked(review, wanted)

    async def validate(self, review: Review) -> Decision:
        old, new = review.old(MIGRATIONS), review.object(MIGRATIONS)
        if old is not None and is_finished(new) and not is_finished(old) and not self._believes(review):
            return Decision.refuse(_not_theirs(new))
        wanted = marks.kept(review, MIGRATIONS) if review.subresource else await self._marks(review)
        if isinstance(wanted, Decision):
            return wanted
        fault = marks.unreadable(review, MIGRATIONS) if wanted is None else marks.mark_fault(review, MIGRATIONS, wanted)
        if fault is not None:
            return fault
        step = migrations_step(review.namespace)
        return await self._charged.decide(
            review,
            tell=lambda refusal: refusal_text(refusal, next_step=step),
            past_limit=review.operation == "UPDATE",  # what is there, moves
            trusted=self._believes,
        )

    def _believes(self, review: Review) -> bool:
        return is_own(review) or self._settings.trusts(review)

    async def _marks(self, review: Review) -> Marks | Decision | None:
        """Those that it ought to have, or why it cannot be; None: what we wrote ourselves stands."""
        old, new = review.old(MIGRATIONS), review.object(MIGRATIONS)
        if old is not None:
            if old.spec.vmi_name != new.spec.vmi_name:
                return _refused(
                    MigrationFault("it cannot be changed: delete the migration, and create another", "FieldValueForbidden")
                )
            return None if marks.are_ours(review, MIGRATIONS) else marks.kept(review, MIGRATIONS)
        names, namespace = new.spec.vmi_name, review.namespace
        instance = await self._client.find(WHOLE_INSTANCES, names, namespace) if names else None
        fault = review_migration(MigrationFacts(namespace=namespace, names=names, instance=instance))
        if fault is not None or instance is None:
            return _refused(fault or MigrationFault("it does not exist"))
        try:
            return {STAMP: str(stamp_for(MAINTENANCE, self._cost(instance))), COST: None}
        except BadInput as error:
            return _refused(MigrationFault(f"what VirtualMachineInstance {namespace}/{names} costs cannot be told: {error}"))

    def _cost(self, instance: WholeInstance) -> Amounts:
        """What the pod on the new node takes: KubeVirt makes it by the version, the settings and the quotas of now. What else
        writes into pods wrote into the one that runs, too, so it is no less than what that takes."""
        meta = instance.metadata
        body = {"metadata": {"annotations": meta.annotations}, "spec": dict(instance.spec)}
        has = read_cost(meta) if COST in meta.annotations else None
        try:
            found = instance_cost(body, self._prices.of(meta.namespace))
        except BadInput:
            if has is None:
                raise
            return has
        return found if has is None else found | has

    def hooks(self) -> tuple[Hook, ...]:
        made = (Target.of(MIGRATIONS, "CREATE", "UPDATE"),)
        shown = (Target.of(MIGRATIONS, "UPDATE", subresources=("status",)),)
        asked = asked_about(self._settings)
        return (
            Hook(
                name="headroom-migration-stamp",
                phase="mutate",
                targets=made,
                answer=self.mutate,
                only_if=asked,
                side_effects="None",
                reinvoke=True,
            ),
            Hook(name="headroom-migration", phase="validate", targets=(*made, *shown), answer=self.validate, only_if=asked),
        )


def _refused(fault: MigrationFault) -> Decision:
    return Decision.invalid(f"{FIELD}: {fault.problem}", Cause(FIELD, fault.reason, fault.problem))


def _not_theirs(migration: VirtualMachineInstanceMigration) -> str:
    meta = migration.metadata
    return (
        f"status.phase {migration.status.phase}: only KubeVirt says how VirtualMachineInstanceMigration"
        f" {meta.namespace}/{meta.name} has ended. Next: kubectl delete vmim {meta.name} -n {meta.namespace}"
    )


def asked_about(settings: Settings) -> dict[str, str]:
    """What may take more, or say that it takes less. That a migration has ended KubeVirt may say at any time."""
    ended = {of: f"{field('status.phase', of=of, default=_NONE)} in {one_of(FINISHED)}" for of in ("object", "oldObject")}
    changes = (NEW, MARKS_DIFFER, differs(FIELD, _NONE), f"({ended['object']}) != ({ended['oldObject']})")
    kubevirt = f"request.userInfo.username in {one_of(settings.trusted)}"
    same = f"!({MARKS_DIFFER} || {differs(FIELD, _NONE)})"
    return {
        "may-count": " || ".join(changes),
        "not-kubevirt-s-end": f"{NEW} || !({kubevirt} && {ended['object']} && {same})",
    }
