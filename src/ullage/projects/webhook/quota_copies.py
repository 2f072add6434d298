"""The hook for a quota's copy on a seed: a first limit holds there before the master has told the seed its part.

Only the master's escrow grants. Where a project has no ledger yet, this hook makes it with grants of 0 and the change number 0,
before the copy is admitted: growth asks for more and waits, as with any grant that is used up. Every change of the escrow has a
higher number. A ledger that is there is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from ullage.clock import Clock
from ullage.kube.errors import AlreadyExists, Unavailable
from ullage.kube.kinds import Kind, Meta
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring, Write
from ullage.ledger.amounts import Cell, write_limits
from ullage.ledger.api import LEDGERS, Ledger, LedgerSpec
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.escrow.divisions import DIVISIONS
from ullage.projects.names import MAX_CLUSTERS, is_project_id
from ullage.quantity import ZERO

WRITES: Final = (Write(LEDGERS, ("get", "create")),)
BUDGET: Final = 3.0  # seconds in which the ledgers are made; else the copy is refused with "try again"


class CopyClient(Protocol):
    """What is needed of a client."""

    async def find(self, kind: Kind[Ledger], name: str, namespace: str = "") -> Ledger | None: ...

    async def create(self, kind: Kind[Ledger], obj: Ledger) -> Ledger: ...


def first_ledgers(quota: ResourceQuota) -> list[Ledger]:
    """The ledgers that a project needs under a quota, as they are before the master has granted anything."""
    project, made = quota.spec.subject.name, []
    if not is_project_id(project):
        return []
    for division in DIVISIONS:
        wholes = {Cell(division.account, resource): whole for resource, whole in division.limits(quota).items()}
        if wholes:
            spec = LedgerSpec(limits=write_limits(dict.fromkeys(wholes, ZERO)), grants=write_limits(wholes))
            made.append(Ledger(metadata=Meta(name=division.ledger_name(project), namespace=LEDGER_NAMESPACE), spec=spec))
    return made


class CopyHook:
    """Answers admission requests for quotas on a seed. Refuses nothing but what it cannot write in time."""

    def __init__(self, client: CopyClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def validate(self, review: Review) -> Decision:
        if not review.dry_run:
            quota = review.object(PROJECT_QUOTAS)
            seconds = min(BUDGET, review.deadline - self._clock.monotonic())
            try:
                async with asyncio.timeout(seconds):
                    for ledger in first_ledgers(quota):
                        await self._make(ledger)
            except TimeoutError as error:
                raise Unavailable(f"the ledgers of {quota.metadata.name} could not be made within {seconds:.1f} s") from error
        return Decision.allow()

    async def _make(self, ledger: Ledger) -> None:
        meta = ledger.metadata
        if await self._client.find(LEDGERS, meta.name, meta.namespace) is None:
            with suppress(AlreadyExists):
                await self._client.create(LEDGERS, ledger)

    def hook(self) -> Hook:
        return Hook(
            name="project-quota-copy",
            phase="validate",
            targets=(Target.of(PROJECT_QUOTAS, "CREATE", "UPDATE"),),
            answer=self.validate,
            only_if=ONLY_IF,
        )


_MOST_CLUSTERS: Final = (
    f"(has(%s.metadata.annotations) && '{MAX_CLUSTERS}' in %s.metadata.annotations"
    f" ? %s.metadata.annotations['{MAX_CLUSTERS}'] : '')"
)


def _most_clusters(of: str) -> str:
    return _MOST_CLUSTERS % (of, of, of)


# Figures, finalizers and a copy that goes pass while the webhook is away.
ONLY_IF: Final[Mapping[str, str]] = {
    "stays": "!has(object.metadata.deletionTimestamp)",
    "another-limit": "oldObject == null || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"
    f" || {_most_clusters('object')} != {_most_clusters('oldObject')}",
}


def make_hook(wiring: Wiring) -> Hook:
    client: Any = wiring.client
    return CopyHook(client, wiring.clock).hook()
