"""Limits at the moment when they are admitted: what a hook does, last of all, for the object that sets them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ullage.clock import Clock
from ullage.errors import UllageError
from ullage.kube.client.interface import Finder
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Decision, Review
from ullage.ledger.amounts import Limits
from ullage.ledger.keys import key_of
from ullage.ledger.limiting.in_flight import LimitChange, lowered
from ullage.ledger.refusals import existing_text
from ullage.ledger.service.limit_views import LimitEvaluator
from ullage.ledger.service.service import Service

T = TypeVar("T", bound=Object)

BUDGET: Final = 3.0  # seconds in which a limit is written; else its author is told to try again, and nothing changes


class Limiting(Generic[T]):
    """A kind whose objects set limits, in the hands of its slice."""

    def __init__(
        self, service: Callable[[], Service], kind: Kind[T], evaluator: LimitEvaluator[T], *, client: Finder, clock: Clock
    ) -> None:
        """`service` gives that of the process, once there is one."""
        self._service = service
        self._kind = kind
        self._evaluator = evaluator
        self._client = client
        self._clock = clock

    async def hold(self, review: Review) -> Decision | None:
        """Has the limits of an object hold from the moment that its request is answered. To be asked last, after everything for
        which we might refuse it: what is written holds until the object is seen, or until it expires. A decision is a refusal
        that the API server would give as well. Raises Retryable where the limits cannot be written in time."""
        if review.dry_run or review.operation not in ("CREATE", "UPDATE"):
            return None
        new, old = review.object(self._kind), review.old(self._kind) if review.operation == "UPDATE" else None
        ledger = self._evaluator.ledger_of(new)
        if not ledger:
            return None
        name = new.metadata.name or review.name
        had = self._had(old) if old is not None and self._evaluator.ledger_of(old) == ledger else {}
        meta = (old if old is not None else new).metadata
        change = LimitChange(
            key=key_of(self._kind.name, namespace=review.namespace, name=name),
            uid=meta.uid,
            on_version=int(old.metadata.resource_version) if old is not None else None,
            now=self._evaluator.limits_of(new),
            old=had,
        )
        if not lowered(change):
            return None
        if old is None and await self._exists(name, review.namespace):
            return Decision.refuse(existing_text(change.key), code=409, reason="AlreadyExists")
        deadline = min(review.deadline, self._clock.monotonic() + BUDGET)
        await self._service().limit(ledger, change, deadline=deadline)
        return None

    def _had(self, old: T) -> Limits:
        """Where the old limits cannot be read all new ones are booked."""
        try:
            return self._evaluator.limits_of(old)
        except Exception:  # in any way
            return {}

    async def _exists(self, name: str, namespace: str) -> bool:
        """Whether a create is for a name that is taken: it comes to nothing, and its limits would hold until they expire.
        Where the API gives no answer they are booked."""
        try:
            async with asyncio.timeout(BUDGET / 3):
                return await self._client.find(self._kind, name, namespace) is not None
        except (UllageError, TimeoutError):
            return False
