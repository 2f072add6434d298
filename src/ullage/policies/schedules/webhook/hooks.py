"""The hook on schedules: one that cannot be is refused when it is written, and not at two in the morning; and those on
VolumeSnapshots of both APIs, so that nobody but Ullage says which of them a schedule made, and when.

Otherwise whoever may create snapshots, and not delete any, could have retention delete older ones for his.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.kube.identities import OWN
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.ledger.charging.stamps import Marks, guard_fault, guarded
from ullage.policies.cut_hooks.webhook.access import Asker, exec_refusal
from ullage.policies.cut_hooks.webhook.hooks import differ
from ullage.policies.schedules.api import SCHEDULES
from ullage.policies.schedules.lookup import DIALECTS
from ullage.policies.schedules.model import SCHEDULED_BY, SCHEDULED_FOR, SEEN
from ullage.policies.schedules.webhook.rules import HOOKS_FIELD, faults
from ullage.snapshots.model import Dialect

TIMEOUT: Final = 10
MARKS: Final[Marks] = dict.fromkeys((SCHEDULED_BY, SCHEDULED_FOR, SEEN))
# Each snapshot of a schedule has them from its creation on: our own processes are not asked about.
MARKED: Final = {**differ(*MARKS), "by-others": f"!(request.userInfo.username in {sorted(OWN)!r})"}


def make_hooks(wiring: Wiring) -> Iterable[Hook]:
    target, hook = Target.of(SCHEDULES, "CREATE", "UPDATE"), ScheduleHook(wiring.client)
    name = "snapshot-schedule"
    yield Hook(name=name, phase="validate", targets=(target,), answer=hook.answer, timeout=TIMEOUT, side_effects="None")
    for dialect in DIALECTS.values():
        yield from SnapshotMarks(dialect).hooks()


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


class SnapshotMarks:
    def __init__(self, dialect: Dialect[Any, Any]) -> None:
        self._dialect = dialect

    async def mutate(self, review: Review) -> Decision:
        return guarded(review, self._dialect.snapshots, MARKS)

    async def validate(self, review: Review) -> Decision:
        return guard_fault(review, self._dialect.snapshots, MARKS) or Decision.allow()

    def hooks(self) -> tuple[Hook, Hook]:
        targets, name = (Target.of(self._dialect.snapshots, "CREATE", "UPDATE"),), f"scheduled-{self._dialect.name}"
        return (
            Hook(
                name=f"{name}-guard",
                phase="mutate",
                targets=targets,
                answer=self.mutate,
                only_if=MARKED,
                side_effects="None",
                reinvoke=True,
            ),
            Hook(
                name=f"{name}-marks",
                phase="validate",
                targets=targets,
                answer=self.validate,
                only_if=MARKED,
                side_effects="None",
            ),
        )
