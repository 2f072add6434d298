"""VirtualMachineInstanceMigrations: stamped with what the instance costs that moves, and booked on the share kept for them.

It makes no difference who asks: KubeVirt itself does where a node is emptied, or a machine is given more while it runs. A
migration takes its room until it has ended, well or not, or is deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ullage.errors import BadInput
from ullage.headroom.accounts import MAINTENANCE, RESOURCES, amounts_in, stamp_for
from ullage.headroom.core_quotas import OF_MIGRATION, PodAsk, shortage_text, shortages
from ullage.headroom.cost import instance_cost, read_cost
from ullage.headroom.counting import FINISHED, is_finished
from ullage.headroom.settings import Settings
from ullage.headroom.texts import migrations_step, refusal_text
from ullage.headroom.webhook import marks
from ullage.headroom.webhook.marks import MARKS_DIFFER, NEW, differs, field, one_of
from ullage.kube.builtin.core import CORE_QUOTAS
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.kube.client.client import Listing
from ullage.kube.client.interface import Finder
from ullage.kube.errors import Cause
from ullage.kube.identities import is_own
from ullage.kube.kinds import Kind
from ullage.kube.objects import is_deleting
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.ledger.amounts import Amounts, BadAmount, Cell
from ullage.ledger.charging.registry import Charged
from ullage.ledger.charging.stamps import COST, STAMP, BadStamp, Marks, marked, stamp_of
from ullage.ledger.keys import ledger_name
from ullage.quantity import Quantity
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


class Reader(Finder, Protocol):
    """Reads one object, or all of a namespace."""

    async def list(self, kind: Kind[Any], namespace: str = "", *, labels: str = "") -> Listing[Any]: ...


class Migrations:
    def __init__(
        self, charged: Charged[VirtualMachineInstanceMigration], client: Reader, settings: Settings, prices: Prices
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
        if old is None and (short := await self._without_room(new, review.namespace)) is not None:
            return Decision.refuse(short)
        step = migrations_step(review.namespace)
        return await self._charged.decide(
            review,
            tell=lambda refusal: refusal_text(refusal, next_step=step),
            past_limit=review.operation == "UPDATE",  # what is there, moves
            trusted=self._believes,
        )

    def _believes(self, review: Review) -> bool:
        return is_own(review) or self._settings.trusts(review)

    async def _without_room(self, migration: VirtualMachineInstanceMigration, namespace: str) -> str | None:
        """Why a core ResourceQuota would refuse the pod of the new node, although the share has room. Asked of the API: a quota
        is counted there, with each pod. A namespace without a share is left to KubeVirt, which waits for the quota."""
        cost, free = _moves(migration), self._free(namespace)
        scaled = self._settings.migration == "scale-quota"  # the quota is raised when the migration is there
        if scaled or not free or not all(cost[name] <= free[name] for name in free):
            return None
        quotas = (await self._client.list(CORE_QUOTAS, namespace)).items
        if not quotas:
            return None
        waiting, ask = await self._waiting(migration, namespace), await self._ask(migration.spec.vmi_name, namespace, cost)
        if not shortages(quotas, ask, waiting=waiting):
            return None
        found = shortages(quotas, ask, waiting=waiting, pods=(await self._client.list(WATCHED_PODS, namespace)).items)
        return shortage_text(found, namespace, free=free) if found else None

    async def _ask(self, name: str, namespace: str, cost: Amounts) -> PodAsk:
        """What the pod asks for: what KubeVirt renders, and of what is limited no less than the migration costs."""
        instance = await self._client.find(WHOLE_INSTANCES, name, namespace)
        try:
            pod = self._prices.of(namespace).pod_of(instance.spec, instance.metadata.annotations) if instance else None
        except BadInput:
            pod = None
        if pod is None:
            return PodAsk.of_cost(cost)
        limits: dict[str, Quantity] = {resource: cost[resource] for resource in RESOURCES if resource in pod.limits}
        return PodAsk(limits={**pod.limits, **limits}, requests=pod.requests)

    async def _waiting(self, migration: VirtualMachineInstanceMigration, namespace: str) -> list[PodAsk]:
        """What others wait for, that were admitted before and whose pods no quota counts yet."""
        others = [
            one
            for one in (await self._client.list(MIGRATIONS, namespace)).items
            if one.metadata.uid != migration.metadata.uid and not is_finished(one) and not is_deleting(one.metadata)
        ]
        pods = (await self._client.list(WATCHED_PODS, namespace, labels=OF_MIGRATION)).items if others else []
        there = {one.metadata.labels.get(OF_MIGRATION) for one in pods}
        return [PodAsk.of_cost(_moves(one)) for one in others if one.metadata.uid not in there]

    def _free(self, namespace: str) -> Amounts:
        """What is free of the share, as this process last saw it; nothing where there is no share."""
        book = self._charged.look(ledger_name(namespace))
        cells = {name: Cell(MAINTENANCE, name) for name in RESOURCES}
        return Amounts(
            {
                name: book.limits[cell] - book.used[cell] - book.reserved[cell]
                for name, cell in cells.items()
                if book is not None and cell in book.limits
            }
        )

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


def _moves(migration: VirtualMachineInstanceMigration) -> Amounts:
    """What the pod on the new node costs."""
    try:
        return amounts_in(stamp_of(migration.metadata), MAINTENANCE)
    except (BadStamp, BadAmount):
        return Amounts()  # it is stamped in a moment


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
