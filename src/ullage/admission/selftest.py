"""Shows that requests really arrive: a webhook that is silently not called enforces nothing, and nobody notices.

A separate entry of the registration (failurePolicy Ignore, one label, one namespace) refuses a ConfigMap that is only
ever created as a dry run, and repeats the nonce on it. If the answer to such a create is that refusal, the API server
found us, trusted our certificate and believed us. If the create goes through, it does not call us: the metric and the
condition say so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from ullage.admission.certificate_rotation import CertificateRotation
from ullage.admission.metrics import Metrics
from ullage.admission.registration import MANAGER, OURS
from ullage.clock import Clock
from ullage.errors import UllageError
from ullage.kube.builtin.core import CONFIG_MAPS, ConfigMap
from ullage.kube.client.client import Client
from ullage.kube.errors import AlreadyExists, ApiError, Forbidden
from ullage.kube.kinds import Meta
from ullage.kube.objects import Condition, Conditions, find_condition, set_condition
from ullage.kube.review import Decision, Hook, Review, Target

logger = logging.getLogger(__name__)

LABEL: Final = "ullage.io/webhook-selftest"
NONCE: Final = "ullage.io/nonce"
OBJECT: Final = "ullage-webhook-selftest"
CONDITION: Final = "WebhookArriving"
FIRST_TRIES: Final = 5  # API servers learn of a registration within moments; quick at first, then at leisure
FIRST_PAUSE: Final = 1.0


def selftest_hook(namespace: str) -> Hook:
    """The entry that the self-test asks through."""

    async def answer(review: Review) -> Decision:
        nonce = review.object(CONFIG_MAPS).metadata.annotations.get(NONCE, "")
        return Decision.refuse(_words(nonce))

    return Hook(
        name="selftest",
        phase="validate",
        targets=(Target.of(CONFIG_MAPS, "CREATE"),),
        answer=answer,
        only_in=(namespace,),
        labels={LABEL: "true"},
        failure_policy="Ignore",
        timeout=5,
        side_effects="None",
    )


class SelfTest:
    """Asks now and then, and says what came of it: `ullage_webhook_arriving`, the log, and a condition that is kept, as
    JSON, in a ConfigMap next to the Secret, since a registration has no status of its own."""

    def __init__(
        self,
        client: Client,
        rotation: CertificateRotation,
        *,
        namespace: str,
        status: str,
        nonce: Callable[[], str],
        came_back: Callable[[], None] = lambda: None,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        """`came_back` is called when requests arrive that did not before: what API servers printed meanwhile is known."""
        self._client = client
        self._rotation = rotation
        self._namespace = namespace
        self._status = status
        self._nonce = nonce
        self._came_back = came_back
        self._last_missed: bool | None = None  # None before the first that arrived: API servers have not heard of us yet
        self._metrics = metrics
        self._clock = clock
        self._conditions: Conditions | None = None

    async def run(self, every: float) -> None:
        tries = 0
        while True:
            try:
                condition = await self.once()
                tries = FIRST_TRIES if condition.status == "True" else tries + 1
            except UllageError as error:
                logger.warning("self-test not reported", extra={"error": str(error)})
            except Exception:
                logger.exception("self-test failed")
            await asyncio.sleep(every if tries >= FIRST_TRIES else min(every, FIRST_PAUSE))

    async def once(self) -> Condition:
        """Asks once and reports."""
        holds, reason, message = await self._ask()
        result = "unknown" if holds is None else "arrived" if holds else "missed"
        self._metrics.selftests.labels(result).inc()
        if holds is not None:
            self._metrics.arriving.set(float(holds))
        self._notice(result)
        before = self._conditions if self._conditions is not None else await self._stored()
        after = set_condition(
            before, CONDITION, status=holds, reason=reason, message=message, generation=0, now=self._clock.now()
        )
        condition = find_condition(after, CONDITION)
        if condition is None:
            raise AssertionError("it was just set")
        if after is not before:
            logger.log(logging.INFO if holds else logging.WARNING, "self-test: %s", message, extra={"reason": reason})
            await self._store(after)
        self._conditions = after
        return condition

    def _notice(self, result: str) -> None:
        if result == "arrived":
            if self._last_missed:
                self._came_back()
            self._last_missed = False
        elif result == "missed" and self._last_missed is not None:
            self._last_missed = True

    async def _ask(self) -> tuple[bool | None, str, str]:
        nonce = self._nonce()
        meta = Meta(name=OBJECT, namespace=self._namespace, labels={LABEL: "true"}, annotations={NONCE: nonce})
        try:
            await self._client.create(CONFIG_MAPS, ConfigMap(metadata=meta), dry_run=True)
        except AlreadyExists:
            pass  # found out only after all webhooks were asked
        except Forbidden as error:
            if _words(nonce) in error.message:
                return self._arrived()
            return None, "CannotAsk", error.message
        except ApiError as error:
            return None, "CannotAsk", error.message
        return False, "NotCalled", "The API server does not call this webhook: limits are not enforced by it."

    def _arrived(self) -> tuple[bool | None, str, str]:
        """The self-test's own entry works. The others are called the same way, if they are there."""
        missing = self._rotation.published.missing if self._rotation.published else ()
        if missing:
            return False, "NotRegistered", f"Entries were taken out of the registration: {', '.join(missing)}."
        foreign = self._rotation.published.foreign if self._rotation.published else ()
        others = f" Entries of others in its configuration are left alone: {', '.join(foreign)}." if foreign else ""
        return True, "Called", f"The API server calls this webhook.{others}"

    async def _stored(self) -> Conditions:
        found = await self._client.find(CONFIG_MAPS, self._status, self._namespace)
        try:
            return msgspec.json.decode(found.data["conditions"], type=tuple[Condition, ...]) if found else ()
        except (KeyError, msgspec.DecodeError):
            return ()

    async def _store(self, conditions: Conditions) -> None:
        wanted = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self._status, "namespace": self._namespace, "labels": OURS},
            "data": {"conditions": msgspec.json.encode(conditions).decode()},
        }
        await self._client.patch(CONFIG_MAPS, self._status, self._namespace, apply=wanted, field_manager=MANAGER, force=True)


def _words(nonce: str) -> str:
    return f"self-test {nonce} arrived"
