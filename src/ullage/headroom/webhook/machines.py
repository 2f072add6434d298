"""VirtualMachines: stamped with what they cost, and booked where they start to count, by whatever write that is.

A stop and a deletion are not asked about: they pass whoever is away. A start by the status is booked there, since the stamp is
on the machine before. What KubeVirt says of a status has happened, and counts even where it does not fit; that a machine is to
start it says for somebody else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec

from ullage.errors import BadInput
from ullage.headroom.accounts import VMS, stamp_for
from ullage.headroom.cost import machine_cost, read_cost, write_cost
from ullage.headroom.counting import NOT_STARTED, STOPPED, TERMINATING, counts, is_finished
from ullage.headroom.settings import Settings
from ullage.headroom.texts import exceeded_text, refusal_text, vms_step
from ullage.headroom.webhook import marks
from ullage.headroom.webhook.marks import MARKS_DIFFER, NEW, differs, field, one_of, part
from ullage.kube.client.interface import Finder
from ullage.kube.identities import is_own
from ullage.kube.objects import Json, controller_of
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.ledger.amounts import Amounts
from ullage.ledger.charging.registry import Charged
from ullage.ledger.charging.stamps import COST, STAMP, BadStamp, Marks, marked
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES, VirtualMachine, VirtualMachineInstance
from ullage.vms.instance_types.reader import Missing, with_instance_type
from ullage.vms.lifecycle import HALTED, run_strategy
from ullage.vms.prices import Prices
from ullage.vms.pricing import Pricing

Asked = Callable[[Review], Awaitable[bool]]

# What the cost follows from.
_PRICED: Final = (("spec", "template"), ("spec", "instancetype"), ("spec", "preference"))


async def nobody(review: Review) -> bool:
    return False


class Machines:
    def __init__(
        self,
        charged: Charged[VirtualMachine],
        client: Finder,
        settings: Settings,
        *,
        prices: Prices,
        exceeds: Callable[[str], bool],
        booked: Asked = nobody,
        held: Asked = nobody,
    ) -> None:
        """`exceeds`: whether a namespace is over its quota. `held`: whether something else holds room for a machine that we
        make ourselves, as a restore does; `booked`: whether that is room enough."""
        self._charged = charged
        self._client = client
        self._settings = settings
        self._prices = prices
        self._exceeds = exceeds
        self._booked = booked
        self._held = held

    async def mutate(self, review: Review) -> Decision:
        warnings: list[str] = []
        try:
            wanted = await self._marks(review, self._prices.of(review.namespace), warnings)
        except Missing:
            return Decision.allow()  # KubeVirt's own webhook may yet put a name there; what is missing later is refused later
        except BadInput as error:
            return marks.wrong_field(error)
        decided = Decision.allow() if wanted is None else marked(review, wanted)
        return replace(decided, warnings=tuple(warnings))

    async def validate(self, review: Review) -> Decision:
        try:
            fault = await marks.price_fault(review, VIRTUAL_MACHINES, partial(self._marks, review), self._prices)
            refused = fault or await self._while_exceeded(review)
        except BadInput as error:
            return marks.wrong_field(error)
        if refused is not None:
            return refused
        if review.operation == "CREATE":
            return await self._made(review)
        return await self._decide(review, past_limit=is_own(review) and marks.are_ours(review, VIRTUAL_MACHINES))

    async def _made(self, review: Review) -> Decision:
        """Room that is held for it was held all the while only if it still is once the machine is booked."""
        booked = await self._booked(review)
        decided = await self._decide(review, past_limit=is_own(review) and booked)
        if booked and decided.allowed and not await self._held(review):
            return Decision.again("what held room for this VM is gone, and it has to fit by itself; try again")
        return decided

    async def validate_status(self, review: Review) -> Decision:
        old, new = review.old(VIRTUAL_MACHINES), review.object(VIRTUAL_MACHINES)
        if old is not None and counts(old) and not counts(new) and not self._believes(review):
            running = await self._instance(new)
            if running is not None:
                return Decision.refuse(_still_runs(new, running))
        asked = msgspec.structs.replace(new.status, state_change_requests=())
        return await self._decide(review, past_limit=counts(msgspec.structs.replace(new, status=asked)))

    async def _decide(self, review: Review, *, past_limit: bool) -> Decision:
        step = vms_step(review.namespace)
        return await self._charged.decide(
            review,
            tell=lambda refusal: refusal_text(refusal, next_step=step),
            past_limit=past_limit,
            trusted=self._believes,
        )

    def _believes(self, review: Review) -> bool:
        return is_own(review) or self._settings.trusts(review)

    async def _marks(self, review: Review, pricing: Pricing, warnings: list[str] | None = None) -> Marks | None:
        """Those that it ought to have; None: what we wrote ourselves stands."""
        old, new = review.old(VIRTUAL_MACHINES), review.object(VIRTUAL_MACHINES)
        if marks.are_ours(review, VIRTUAL_MACHINES):
            return None
        if old is not None and not _is_priced_anew(review, old, new):
            return marks.kept(review, VIRTUAL_MACHINES)
        cost = machine_cost(await self._expanded(review, new, review.object_json(), warnings), pricing)
        running = await self._instance(old) if old is not None else None
        pays = cost | _cost_of(running) if running is not None else cost  # what runs was made of an earlier template
        return {STAMP: str(stamp_for(VMS, pays)), COST: write_cost(cost)}

    async def _expanded(
        self, review: Review, machine: VirtualMachine, body: Json, warnings: list[str] | None = None
    ) -> Mapping[str, Any]:
        """The machine, with what its instance type gives it. A halted machine may name what comes later: it is priced again
        when it is started. Any other is refused (Missing)."""
        try:
            return await with_instance_type(self._client, machine, body, namespace=review.namespace)
        except Missing as error:
            if run_strategy(machine) != HALTED or counts(machine):
                raise
            if warnings is not None:
                warnings.append(f"{error}. Until then the VM cannot be started")
            return body

    async def _instance(self, machine: VirtualMachine) -> VirtualMachineInstance | None:
        """The machine's instance, if it has one that has not come to its end. By the API itself."""
        meta = machine.metadata
        found = await self._client.find(INSTANCES, meta.name, meta.namespace)
        if found is None or is_finished(found):
            return None
        owner = controller_of(found.metadata)
        return found if owner is not None and owner.uid == meta.uid else None

    async def _while_exceeded(self, review: Review) -> Decision | None:
        """Over its quota, a namespace's machines are stopped and made smaller, and nothing else. KubeVirt goes on."""
        if self._believes(review) or not self._exceeds(review.namespace):
            return None
        old, new = review.old(VIRTUAL_MACHINES), review.object(VIRTUAL_MACHINES)
        after, before = review.object_json(), msgspec.json.decode(review.request.old_object)
        if old is not None:
            if part(after, "spec") == part(before, "spec"):
                return None
            stops = run_strategy(new) == HALTED and run_strategy(old) != HALTED
            starts = counts(new) and not counts(old)
            pricing = self._prices.of(review.namespace)
            wants = machine_cost(await self._expanded(review, new, after), pricing)
            had = machine_cost(await self._expanded(review, old, before), pricing)
            if wants <= had and (stops or (wants != had and not starts)):
                return None
        return Decision.refuse(exceeded_text(review.namespace))

    def hooks(self) -> tuple[Hook, ...]:
        targets = (Target.of(VIRTUAL_MACHINES, "CREATE", "UPDATE"),)
        return (
            Hook(
                name="headroom-machine-stamp",
                phase="mutate",
                targets=targets,
                answer=self.mutate,
                only_if=ASKED,
                side_effects="None",
                reinvoke=True,
            ),
            Hook(name="headroom-machine", phase="validate", targets=targets, answer=self.validate, only_if=ASKED),
            Hook(
                name="headroom-machine-status",
                phase="validate",
                targets=(Target.of(VIRTUAL_MACHINES, "UPDATE", subresources=("status",)),),
                answer=self.validate_status,
                only_if=status_asked(self._settings),
            ),
        )


def _is_priced_anew(review: Review, old: VirtualMachine, new: VirtualMachine) -> bool:
    """Where its template is another, and where it starts: its instance is priced then, too."""
    before, after = msgspec.json.decode(review.request.old_object), review.object_json()
    return any(part(after, *path) != part(before, *path) for path in _PRICED) or (counts(new) and not counts(old))


def _cost_of(instance: VirtualMachineInstance) -> Amounts:
    try:
        return read_cost(instance.metadata)
    except BadStamp:
        return Amounts()  # from before there were any; it is stamped, and its machine then


def _still_runs(machine: VirtualMachine, instance: VirtualMachineInstance) -> str:
    meta, shown = machine.metadata, machine.status.printable_status or "empty"
    return (
        f"status.printableStatus {shown}: VM {meta.namespace}/{meta.name} has an instance, which is"
        f" {instance.status.phase or 'about to start'}; only KubeVirt says that it has stopped."
        f" Next: ullage vm stop {meta.name} -n {meta.namespace}"
    )


# --- CEL: what is asked about ----------------------------------------------------------------------------------------


def _strategy(of: str) -> str:
    said, runs = field("spec.runStrategy", of=of, default="''"), field("spec.running", of=of, default="false")
    return f"({said} != '' ? {said} : {runs} == true ? 'Always' : 'Halted')"


def _starts(of: str) -> str:
    requests = field("status.stateChangeRequests", of=of, default="[]")
    return f"{requests}.exists(one, has(one.action) && one.action == 'Start')"


_SHOWN: Final = {of: field("status.printableStatus", of=of, default="''") for of in ("object", "oldObject")}
_QUIET: Final = one_of({*NOT_STARTED, STOPPED, TERMINATING})
_REPRICED: Final = " || ".join(differs(".".join(path), "{}") for path in _PRICED)
_STOPS: Final = f"{_strategy('object')} == 'Halted' && !({_REPRICED})"
ASKED: Final = {"may-count": f"{NEW} || {MARKS_DIFFER} || ({differs('spec', '{}')} && !({_STOPS}))"}


def status_asked(settings: Settings) -> dict[str, str]:
    """What may begin to count, or cease to. That a machine has stopped KubeVirt may say at any time."""
    new, old = _SHOWN["object"], _SHOWN["oldObject"]
    changes = (
        f"{_starts('object')} != {_starts('oldObject')}",
        differs("status.runStrategy", "''"),
        differs("status.created", "false"),
        f"({new} != {old} && ({new} in {_QUIET} || {old} in {_QUIET}))",
    )
    kubevirt = f"request.userInfo.username in {one_of(settings.trusted)}"
    stopped = f"{new} == '{STOPPED}' && !{_starts('object')}"
    return {"may-count": " || ".join(changes), "not-kubevirt-s-stop": f"!({kubevirt} && {stopped})"}
