"""Pods: those that KubeVirt makes for an instance are marked as paid for, and all others are booked where a share is kept.

Marks are put on, and kept from everybody else, in every namespace: it may get a quota later, and must not find pods then that
say of themselves that they are free. Only pods with a mark, and those that are to have one, are asked about for it. What pods
take is booked in the namespaces that have the label, and in no others are they asked about at all.
"""

from __future__ import annotations

from typing import Final

from ullage.headroom.namespaces import HEADROOM_LABEL, NOT_OURS, ON
from ullage.headroom.pods import MARK, instance_owner, is_free
from ullage.headroom.settings import Settings
from ullage.headroom.texts import refusal_text, vms_step
from ullage.headroom.webhook import marks
from ullage.headroom.webhook.marks import NEW, differs, one_of
from ullage.kube.builtin.watched_pods import WATCHED_PODS, WatchedPod
from ullage.kube.errors import Cause
from ullage.kube.identities import is_own
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.ledger.charging.registry import Charged
from ullage.ledger.charging.stamps import STAMP, Marks, marked
from ullage.vms.api.machines import INSTANCES

BOOKED_IN: Final = {HEADROOM_LABEL: ON}  # the labels of namespaces that have a share
RESIZE: Final = "resize"
_FIELD: Final = f"metadata.annotations[{STAMP}]"


class Pods:
    def __init__(self, charged: Charged[WatchedPod], settings: Settings) -> None:
        self._charged = charged
        self._settings = settings

    async def mark(self, review: Review) -> Decision:
        return marked(review, self._marks(review))

    async def guard(self, review: Review) -> Decision:
        """What concerns a pod that is marked, or would like to be."""
        old = review.old(WATCHED_PODS)
        if review.subresource == RESIZE:
            return self._resized(review)
        fault = marks.mark_fault(review, WATCHED_PODS, self._marks(review))
        if fault is not None:
            return fault
        return Decision.allow() if old is None else await self.book(review)

    async def book(self, review: Review) -> Decision:
        step = vms_step(review.namespace)
        return await self._charged.decide(review, tell=lambda refusal: refusal_text(refusal, next_step=step))

    async def refuse_binding(self, review: Review) -> Decision:
        """Whoever binds a pod to a node may put annotations on it with that."""
        problem = "only Ullage may set it"
        return Decision.invalid(f"{_FIELD}: {problem}", Cause(_FIELD, "FieldValueForbidden", problem))

    def _marks(self, review: Review) -> Marks:
        old, new = review.old(WATCHED_PODS), review.object(WATCHED_PODS)
        if old is None:
            made = self._settings.trusts(review) and instance_owner(new.metadata) is not None
            return {STAMP: MARK if made else None}
        # We mark pods ourselves that were there before us.
        return {STAMP: (new if is_own(review) else old).metadata.annotations.get(STAMP)}

    def _resized(self, review: Review) -> Decision:
        """One that is paid for may not become larger than what is paid: KubeVirt makes another where its machine grows."""
        new = review.object(WATCHED_PODS).metadata
        owner = instance_owner(new)
        if owner is None or not is_free(new) or self._settings.trusts(review):
            return Decision.allow()
        return Decision.refuse(
            f"Pod {review.namespace}/{new.name} runs VirtualMachineInstance {owner.name}, which pays for it: its resources are"
            f" those of the VM. Next: kubectl edit vm {owner.name} -n {review.namespace}"
        )

    def hooks(self) -> tuple[Hook, ...]:
        marked = Target.of(WATCHED_PODS, "CREATE", "UPDATE")
        # The status of a pod, unlike that of other kinds, is written together with its annotations.
        beside = Target.of(WATCHED_PODS, "UPDATE", subresources=("status", RESIZE))
        binding = Target(
            groups=("",), versions=("v1",), resources=("pods/binding", "bindings"), operations=("CREATE",), scope="Namespaced"
        )
        return (
            Hook(
                name="headroom-pod-mark",
                phase="mutate",
                targets=(marked, Target.of(WATCHED_PODS, "UPDATE", subresources=("status",))),
                answer=self.mark,
                not_in=NOT_OURS,
                only_if=marked_if(self._settings),
                side_effects="None",
                reinvoke=True,
            ),
            Hook(
                name="headroom-pod-guard",
                phase="validate",
                targets=(marked, beside),
                answer=self.guard,
                not_in=NOT_OURS,
                only_if=marked_if(self._settings),
            ),
            Hook(
                name="headroom-pod-binding",
                phase="validate",
                targets=(binding,),
                answer=self.refuse_binding,
                not_in=NOT_OURS,
                only_if={"marked": _has_mark("object")},
                side_effects="None",
            ),
            Hook(
                name="headroom-pod",
                phase="validate",
                targets=(Target.of(WATCHED_PODS, "CREATE"), Target.of(WATCHED_PODS, "UPDATE", subresources=(RESIZE,))),
                answer=self.book,
                not_in=NOT_OURS,
                namespace_labels=BOOKED_IN,
            ),
        )


def _has_mark(of: str) -> str:
    return f"(has({of}.metadata.annotations) && '{STAMP}' in {of}.metadata.annotations)"


def marked_if(settings: Settings) -> dict[str, str]:
    """One that has a mark already is asked about where that changes, where its owner does, and where it is made larger."""
    owners = "object.metadata.ownerReferences"
    kubevirt = f"request.userInfo.username in {one_of(settings.trusted)}"
    launcher = f"({kubevirt} && has({owners}) && {owners}.exists(one, one.kind == '{INSTANCES.kind}'))"
    changes = " || ".join((_text_differs(), differs("metadata.ownerReferences", "[]"), _RESIZED))
    came = f"{_has_mark('object')} != {_has_mark('oldObject')}"
    return {"marked": f"{NEW} ? ({_has_mark('object')} || {launcher}) : ({came} || ({_has_mark('oldObject')} && ({changes})))"}


_RESIZED: Final = f"(has(request.subResource) && request.subResource == '{RESIZE}')"


def _text_differs() -> str:
    new, old = (f"{of}.metadata.annotations['{STAMP}']" for of in ("object", "oldObject"))
    return f"({_has_mark('object')} && {new} != {old})"
