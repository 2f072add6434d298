"""VirtualMachineInstances: stamped with what they cost, and with who pays. One that does not fit is not made, by nobody.

The machine that controls an instance pays for it, if it counts: then the instance pays what it costs beyond that, which is
mostly nothing. Whether it does is asked of the API: a reference to an owner is written by whoever makes the object.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from ullage.errors import BadInput
from ullage.headroom.accounts import VMS, amounts_in, stamp_for
from ullage.headroom.charges import machine_owner
from ullage.headroom.cost import instance_cost, read_cost, write_cost
from ullage.headroom.counting import FINISHED, counts, is_finished
from ullage.headroom.settings import Settings
from ullage.headroom.texts import refusal_text, vms_step
from ullage.headroom.webhook import marks
from ullage.headroom.webhook.marks import MARKS_DIFFER, NEW, differs, field, one_of, part
from ullage.kube.client.interface import Finder
from ullage.kube.identities import is_own
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.ledger.amounts import Amounts, BadAmount
from ullage.ledger.charging.registry import Charged
from ullage.ledger.charging.stamps import COST, FREE, STAMP, BadStamp, Marks, Stamp, marked, stamp_of
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES, VirtualMachineInstance
from ullage.vms.prices import Prices
from ullage.vms.pricing import Pricing

# Who takes the owner off what is left when a machine is deleted alone. It runs already, and the machine has to be able to go.
COLLECTORS: Final = frozenset({"system:serviceaccount:kube-system:generic-garbage-collector", "system:kube-controller-manager"})
_PRICED: Final = (("spec", "domain"), ("spec", "architecture"))  # what the cost follows from
_OWNERS: Final = ("metadata", "ownerReferences")


class Instances:
    def __init__(self, charged: Charged[VirtualMachineInstance], client: Finder, settings: Settings, prices: Prices) -> None:
        self._charged = charged
        self._client = client
        self._settings = settings
        self._prices = prices

    async def mutate(self, review: Review) -> Decision:
        try:
            wanted = await self._marks(review, self._prices.of(review.namespace))
        except BadInput as error:
            return marks.wrong_field(error)
        return Decision.allow() if wanted is None else marked(review, wanted)

    async def validate(self, review: Review) -> Decision:
        old, new = review.old(INSTANCES), review.object(INSTANCES)
        if old is not None and is_finished(new) and not is_finished(old) and not self._believes(review):
            return Decision.refuse(_not_theirs(new))
        try:
            fault = await marks.price_fault(review, INSTANCES, partial(self._marks, review), self._prices)
        except BadInput as error:
            return marks.wrong_field(error)
        if fault is not None:
            return fault
        step = vms_step(review.namespace)
        return await self._charged.decide(
            review,
            tell=lambda refusal: refusal_text(refusal, next_step=step),
            past_limit=_happened(review),
            trusted=lambda one: self._believes(one) or one.user.username in COLLECTORS,
        )

    def _believes(self, review: Review) -> bool:
        return is_own(review) or self._settings.trusts(review)

    async def _marks(self, review: Review, pricing: Pricing) -> Marks | None:
        """Those that it ought to have; None: what we wrote ourselves stands."""
        old, new = review.old(INSTANCES), review.object(INSTANCES)
        if marks.are_ours(review, INSTANCES):
            return None
        if review.subresource:
            return marks.kept(review, INSTANCES)
        if old is None:
            cost = instance_cost(review.object_json(), pricing)
        elif _is_priced_anew(review):
            cost = instance_cost(review.object_json(), pricing)
            if not self._believes(review):
                cost = cost | _cost_of(old)  # that its pod has become smaller, nobody else can say
        elif machine_owner(old.metadata) == machine_owner(new.metadata) or COST not in old.metadata.annotations:
            return marks.kept(review, INSTANCES)
        else:
            cost = _cost_of(old)
        return {COST: write_cost(cost), STAMP: str(await self._stamp(new, review, cost))}

    async def _stamp(self, instance: VirtualMachineInstance, review: Review, cost: Amounts) -> Stamp:
        """What it pays itself. In the mutating phase it may have no namespace of its own yet."""
        owner = machine_owner(instance.metadata)
        machine = await self._client.find(VIRTUAL_MACHINES, owner.name, review.namespace) if owner is not None else None
        if owner is None or machine is None or machine.metadata.uid != owner.uid or not counts(machine):
            return stamp_for(VMS, cost)
        try:
            more = cost.beyond(amounts_in(stamp_of(machine.metadata), VMS))
        except (BadStamp, BadAmount):
            return stamp_for(VMS, cost)
        return stamp_for(VMS, more) if more else FREE

    def hooks(self) -> tuple[Hook, ...]:
        made = (Target.of(INSTANCES, "CREATE", "UPDATE"),)
        # On a cluster KubeVirt writes the status of an instance with the rest of it, and elsewhere apart.
        shown = (Target.of(INSTANCES, "UPDATE", subresources=("status",)),)
        asked = asked_about(self._settings)
        return (
            Hook(
                name="headroom-instance-stamp",
                phase="mutate",
                targets=made,
                answer=self.mutate,
                only_if=asked,
                side_effects="None",
                reinvoke=True,
            ),
            Hook(name="headroom-instance", phase="validate", targets=(*made, *shown), answer=self.validate, only_if=asked),
        )


def _happened(review: Review) -> bool:
    """Whether it is taken already: what a status says, what we found out ourselves, and what lost its machine."""
    if review.operation == "CREATE":
        return False
    return bool(review.subresource) or marks.are_ours(review, INSTANCES) or not _is_priced_anew(review)


def _is_priced_anew(review: Review) -> bool:
    before, after = msgspec.json.decode(review.request.old_object), review.object_json()
    return any(part(before, *path) != part(after, *path) for path in _PRICED)


def _cost_of(instance: VirtualMachineInstance) -> Amounts:
    try:
        return read_cost(instance.metadata)
    except BadStamp:
        return Amounts()


def _not_theirs(instance: VirtualMachineInstance) -> str:
    meta = instance.metadata
    return (
        f"status.phase {instance.status.phase}: only KubeVirt says how VirtualMachineInstance {meta.namespace}/{meta.name} has"
        f" ended. Next: kubectl delete vmi {meta.name} -n {meta.namespace}"
    )


def asked_about(settings: Settings) -> dict[str, str]:
    """What may take more, or say that it takes less. That an instance has ended KubeVirt may say at any time."""
    phases = {of: field("status.phase", of=of, default="''") for of in ("object", "oldObject")}
    ended = {of: f"{phase} in {one_of(FINISHED)}" for of, phase in phases.items()}
    changes = (
        NEW,
        MARKS_DIFFER,
        *(differs(".".join(path), default) for path, default in zip(_PRICED, ("{}", "''"), strict=True)),
        differs(".".join(_OWNERS), "[]"),
        f"({ended['object']}) != ({ended['oldObject']})",
    )
    kubevirt = f"request.userInfo.username in {one_of(settings.trusted)}"
    same = f"!({MARKS_DIFFER})"
    return {
        "may-count": " || ".join(changes),
        "not-kubevirt-s-end": f"{NEW} || !({kubevirt} && {ended['object']} && {same})",
    }
