"""The hook for SnapshotLimits: has the ledger hold first and lower limits before the request is answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.ledger.charging.registry import registry_of
from ullage.policies.counts.api import SNAPSHOT_LIMITS

# An object that goes, and what is written beside the limits, pass while the webhook is away.
ONLY_IF: Final[Mapping[str, str]] = {
    "stays": "!has(object.metadata.deletionTimestamp)",
    "another-limit": "oldObject == null || object.spec != oldObject.spec",
}


def make_hooks(wiring: Wiring) -> Iterable[Hook]:
    limiting = registry_of(wiring).limiting(SNAPSHOT_LIMITS)

    async def validate(review: Review) -> Decision:
        return await limiting.hold(review) or Decision.allow()

    yield Hook(
        name="snapshot-limit",
        phase="validate",
        targets=(Target.of(SNAPSHOT_LIMITS, "CREATE", "UPDATE"),),
        answer=validate,
        only_if=ONLY_IF,
    )
