"""VirtualMachineRestores whose new VM is to run: room is held for it from the moment that the restore is admitted.

The VM that is made of it in the end takes the room over. For a moment both are counted, which is the safe way round: so the VM
passes the limit by as much as its restore holds, and by no more.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec import UNSET

from ullage.errors import BadInput
from ullage.headroom.accounts import VMS, stamp_for
from ullage.headroom.charges import machine_takes, restore_takes
from ullage.headroom.cost import machine_cost
from ullage.headroom.settings import Settings
from ullage.headroom.texts import refusal_text, vms_step
from ullage.headroom.webhook import marks
from ullage.headroom.webhook.marks import MARKS_DIFFER, NEW, one_of
from ullage.kube.client.interface import Finder
from ullage.kube.errors import Cause
from ullage.kube.identities import OWN, is_own
from ullage.kube.objects import is_deleting
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.ledger.amounts import BadAmount
from ullage.ledger.charging.registry import Charged
from ullage.ledger.charging.stamps import COST, STAMP, BadStamp, Marks, marked
from ullage.ledger.keys import ledger_name
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import VIRTUAL_MACHINES, WholeMachine
from ullage.vms.api.restores import VM_RESTORES, VirtualMachineRestore
from ullage.vms.instance_types.reader import with_instance_type
from ullage.vms.model import RESTORE_NAME, RESTORED_BY, will_run
from ullage.vms.prices import Prices
from ullage.vms.pricing import Pricing

FIELD: Final = "spec.virtualMachineBackupName"


class Restores:
    def __init__(self, charged: Charged[VirtualMachineRestore], client: Finder, settings: Settings, prices: Prices) -> None:
        self._charged = charged
        self._client = client
        self._settings = settings
        self._prices = prices

    # --- restores ---

    async def mutate(self, review: Review) -> Decision:
        try:
            wanted = await self._marks(review, self._prices.of(review.namespace))
        except BadInput as error:
            return _unknown_cost(error)
        return Decision.allow() if wanted is None else marked(review, wanted)

    async def validate(self, review: Review) -> Decision:
        try:
            fault = await marks.price_fault(review, VM_RESTORES, partial(self._marks, review), self._prices)
        except BadInput as error:
            return _unknown_cost(error)
        if fault is not None:
            return fault
        old, new = review.old(VM_RESTORES), review.object(VM_RESTORES)
        if old is not None and not is_own(review) and not restore_takes(old) <= restore_takes(new):
            return Decision.refuse(_not_theirs(new))
        step = vms_step(review.namespace)
        return await self._charged.decide(review, tell=lambda refusal: refusal_text(refusal, next_step=step))

    async def _marks(self, review: Review, pricing: Pricing) -> Marks | None:
        """Those that it ought to have; None: what we wrote ourselves stands. One whose VM is left stopped has none."""
        if marks.are_ours(review, VM_RESTORES):
            return None
        if review.old(VM_RESTORES) is not None:
            return marks.kept(review, VM_RESTORES)
        restore = review.object(VM_RESTORES)
        none: Marks = {STAMP: None, COST: None}
        if not restore.spec.new_vm or restore.spec.start is False:
            return none
        backup = await self._client.find(VM_BACKUPS, restore.spec.virtual_machine_backup_name, review.namespace)
        source = backup.status.source if backup is not None else UNSET
        if source is UNSET:
            return none  # there is nothing to restore from: it is refused for that
        if not will_run(restore, source.spec):
            return none
        kept = WholeMachine(spec=source.spec)
        body = await with_instance_type(self._client, kept.partly, {"spec": dict(source.spec)}, namespace=review.namespace)
        cost = machine_cost(body, pricing)
        return {**none, STAMP: str(stamp_for(VMS, cost))}

    # --- their VMs ---

    async def pays_for(self, review: Review) -> bool:
        """Whether a VM that is about to be made may take over the room that its restore holds. Not where more is taken than
        there is, with what the restore holds: then its room is gone, and the VM has to fit by itself."""
        return await self.holds_room(review) and not self._is_over(review)

    async def holds_room(self, review: Review) -> bool:
        """Whether room is held for a VM that is about to be made, by the restore that makes it. As the API has it: asked before
        a VM is booked and after it, it says that both were counted in between."""
        if review.operation != "CREATE" or not is_own(review):
            return False
        machine = review.object(VIRTUAL_MACHINES)
        name, uid = (machine.metadata.annotations.get(key, "") for key in (RESTORE_NAME, RESTORED_BY))
        found = await self._client.find(VM_RESTORES, name, review.namespace) if name else None
        if found is None or found.metadata.uid != uid or is_deleting(found.metadata):
            return False
        try:
            return found.spec.target.name == machine.metadata.name and machine_takes(machine) <= restore_takes(found)
        except (BadStamp, BadAmount):
            return False

    def _is_over(self, review: Review) -> bool:
        book, takes = self._charged.look(ledger_name(review.namespace)), machine_takes(review.object(VIRTUAL_MACHINES))
        if book is None:
            return False
        return any(cell in book.limits and book.used[cell] + book.reserved[cell] > book.limits[cell] for cell in takes)

    def hooks(self) -> tuple[Hook, ...]:
        made = (Target.of(VM_RESTORES, "CREATE", "UPDATE"),)
        return (
            Hook(
                name="headroom-restore-stamp",
                phase="mutate",
                targets=made,
                answer=self.mutate,
                only_if=ASKED,
                side_effects="None",
                reinvoke=True,
            ),
            Hook(
                name="headroom-restore",
                phase="validate",
                targets=(*made, Target.of(VM_RESTORES, "UPDATE", subresources=("status",))),
                answer=self.validate,
                only_if=ASKED,
            ),
        )


def _unknown_cost(error: BadInput) -> Decision:
    problem = f"what the VM of the backup would cost cannot be told: {error}"
    return Decision.invalid(f"{FIELD}: {problem}", Cause(FIELD, "FieldValueInvalid", problem))


def _not_theirs(restore: VirtualMachineRestore) -> str:
    meta = restore.metadata
    return (
        f"status: only Ullage says how far VirtualMachineRestore {meta.namespace}/{meta.name} is."
        f" Next: kubectl delete vmrestore {meta.name} -n {meta.namespace}"
    )


_STAMPED: Final = f"(has(oldObject.metadata.annotations) && '{STAMP}' in oldObject.metadata.annotations)"
_SHOWN: Final = "(has(request.subResource) && request.subResource == 'status')"
_OTHERS: Final = f"!(request.userInfo.username in {one_of(OWN)})"
# Of its status only what others write: what we do ourselves is never asked about.
ASKED: Final = {"may-count": f"{NEW} || {MARKS_DIFFER} || ({_SHOWN} && {_STAMPED} && {_OTHERS})"}
