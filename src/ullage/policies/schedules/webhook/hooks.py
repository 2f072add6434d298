"""The hook on schedules: one that cannot be is refused when it is written, and not at two in the morning."""

from __future__ import annotations

from typing import Final

from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.policies.cut_hooks.webhook.access import Asker, exec_refusal
from ullage.policies.schedules.api import SCHEDULES
from ullage.policies.schedules.webhook.rules import HOOKS_FIELD, faults

TIMEOUT: Final = 10


def make_hooks(wiring: Wiring) -> list[Hook]:
    target, hook = Target.of(SCHEDULES, "CREATE", "UPDATE"), ScheduleHook(wiring.client)
    name = "snapshot-schedule"
    return [Hook(name=name, phase="validate", targets=(target,), answer=hook.answer, timeout=TIMEOUT, side_effects="None")]


class ScheduleHook:
    def __init__(self, client: Asker) -> None:
        self._client = client

    async def answer(self, review: Review) -> Decision:
        """An edit that leaves the spec alone is not asked about: a finalizer can be taken off whatever the spec says. Where a
        schedule has hooks, any other edit needs the right to them: another selector has them run in other pods."""
        schedule, old = review.object(SCHEDULES), review.old(SCHEDULES)
        if old is not None and old.spec == schedule.spec:
            return Decision.allow()
        found = faults(schedule.spec)
        if found:
            return Decision.invalid("; ".join(f"{one.field}: {one.message}" for one in found), *found)
        if schedule.spec.hooks and (refusal := await exec_refusal(self._client, review, HOOKS_FIELD)):
            return refusal
        return Decision.allow()
