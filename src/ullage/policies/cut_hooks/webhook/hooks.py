"""The hooks on VolumeSnapshots of both APIs: who may name commands on one, and that nobody but Ullage says that one waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.errors import BadInput
from ullage.kube.errors import Cause
from ullage.kube.identities import is_own
from ullage.kube.kinds import Kind
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.ledger.charging.stamps import guard_fault, guarded
from ullage.policies.cut_hooks.api import HOOKS, HOOKS_FIELD, decode_hooks
from ullage.policies.cut_hooks.webhook.access import Asker, exec_refusal
from ullage.snapshots.model import HOOKED, Dialect
from ullage.snapshots.slice import DIALECTS


async def judge_hooks(client: Asker, review: Review, kind: Kind[Any]) -> Decision:
    """Of a snapshot or a group of them: whether hooks may be named on it, these, and by whoever does."""
    given, old = review.object(kind).metadata.annotations.get(HOOKS), review.old(kind)
    before = old.metadata.annotations.get(HOOKS) if old is not None else None
    if given == before or is_own(review):
        return Decision.allow()
    if old is not None:
        problem = f"what is run around a cut is said when it is asked for, and cannot be changed; create another {kind.kind}"
        return Decision.invalid(f"{HOOKS_FIELD}: {problem}", Cause(HOOKS_FIELD, "FieldValueInvalid", problem))
    try:
        decode_hooks(given or "")
    except BadInput as error:
        return Decision.invalid(str(error), Cause(HOOKS_FIELD, "FieldValueInvalid", error.problem))
    return await exec_refusal(client, review, HOOKS_FIELD) or Decision.allow()


class SnapshotHooks:
    def __init__(self, dialect: Dialect[Any, Any], client: Asker) -> None:
        self._dialect = dialect
        self._client = client

    async def mutate(self, review: Review) -> Decision:
        return guarded(review, self._dialect.snapshots, {HOOKED: None})

    async def validate(self, review: Review) -> Decision:
        kind = self._dialect.snapshots
        if fault := guard_fault(review, kind, {HOOKED: None}):
            return fault
        return await judge_hooks(self._client, review, kind)

    def hooks(self) -> tuple[Hook, Hook]:
        targets, name = (Target.of(self._dialect.snapshots, "CREATE", "UPDATE"),), f"cut-hooks-{self._dialect.name}"
        return (
            Hook(
                name=f"{name}-guard",
                phase="mutate",
                targets=targets,
                answer=self.mutate,
                only_if=differ(HOOKED),
                side_effects="None",
                reinvoke=True,
            ),
            Hook(
                name=f"{name}-access",
                phase="validate",
                targets=targets,
                answer=self.validate,
                only_if=differ(HOOKED, HOOKS),
                side_effects="None",
            ),
        )


def make_hooks(wiring: Wiring) -> Iterable[Hook]:
    for dialect in DIALECTS:
        yield from SnapshotHooks(dialect, wiring.client).hooks()


def _value(of: str) -> str:
    return (
        f"({of} != null && has({of}.metadata.annotations) && mark in {of}.metadata.annotations "
        f"? {of}.metadata.annotations[mark] : '')"
    )


def differ(*marks: str) -> dict[str, str]:
    """The condition of a hook that is asked only where one of these annotations comes, changes or goes."""
    return {_CHANGED: f"{list(marks)!r}.exists(mark, {_value('object')} != {_value('oldObject')})"}


_CHANGED: Final = "hooks-differ"
