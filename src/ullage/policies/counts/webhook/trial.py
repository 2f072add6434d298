"""Whether a new object would be admitted if there were room for it: the API server is asked for it once more, as a dry run.

Other webhooks, policies and quotas may refuse what we would delete an old snapshot for. Our own hooks let a dry run of our own
identity pass the limits (`space/webhook/charging.py`). What the API server does not answer in time is not known, and then
nothing is deleted. The object is tried here and not in the controller, since it is at hand here: a ledger that carried all
objects that wait would be too large.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec

from ullage.clock import Clock
from ullage.errors import Retryable, UllageError
from ullage.kube.errors import Forbidden
from ullage.kube.kinds import Kind, Object
from ullage.kube.objects import Json
from ullage.kube.review import Review

SECONDS: Final = 3.0  # that the API server has for its answer
PASSED_SECONDS: Final = 5.0  # for which an object that passed is not tried again: clients ask once a second
MOST_PASSED: Final = 1000  # that are remembered
MOST_AT_ONCE: Final = 20
MOST_OF_NAMESPACE: Final = 3  # of these: each costs the API server a create, and some namespaces ask for hundreds
# What the API server gives to an object. A create carries none of it.
_GIVEN: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")


class TrialClient(Protocol):
    """What is needed of a `kube.Client`."""

    async def try_create(self, kind: Kind[Any], body: Json, namespace: str = "") -> None: ...


@dataclass(frozen=True, slots=True)
class TrialResult:
    """`refusal`: why the object would not be admitted. `unknown`: why that could not be found out. Both empty: it would be."""

    refusal: str = ""
    unknown: str = ""


class Trials:
    def __init__(self, client: TrialClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._passed: dict[bytes, float] = {}  # by object, until when that is believed
        self._under_way = Counter[str]()  # by namespace

    async def of(self, review: Review) -> TrialResult:
        """What would become of a new object, apart from our limits."""
        body = _as_sent(review)
        digest = blake2b(msgspec.json.encode((review.namespace, body), order="sorted"), digest_size=16).digest()
        if self._passed.get(digest, 0.0) > self._clock.monotonic():
            return TrialResult()
        if self._under_way[review.namespace] >= MOST_OF_NAMESPACE or self._under_way.total() >= MOST_AT_ONCE:
            return TrialResult(unknown="others are tried just now")
        self._under_way[review.namespace] += 1
        try:
            outcome = await self._asked(review, body)
        finally:
            self._under_way -= Counter((review.namespace,))
        if outcome == TrialResult():
            self._remember(digest)
        return outcome

    async def _asked(self, review: Review, body: Json) -> TrialResult:
        resource = review.resource
        kind = Kind(resource.group, resource.version, review.kind.kind, resource.resource, Object)
        seconds = min(SECONDS, (review.deadline - self._clock.monotonic()) / 2)
        try:
            async with asyncio.timeout(seconds):
                await self._client.try_create(kind, body, review.namespace)
        except TimeoutError:
            return TrialResult(unknown=f"the API server gave no answer to a dry run within {seconds:.1f} s")
        except Forbidden as error:
            if error.lacks_right:
                return TrialResult(unknown=f"the webhook may not try it ({error}); run `ullage install`")
            return TrialResult(refusal=str(error))
        except Retryable as error:
            return TrialResult(unknown=str(error))
        except UllageError as error:
            return TrialResult(refusal=str(error))
        return TrialResult()

    def _remember(self, digest: bytes) -> None:
        now = self._clock.monotonic()
        if len(self._passed) >= MOST_PASSED:
            self._passed = {one: until for one, until in self._passed.items() if until > now}
        if len(self._passed) < MOST_PASSED:
            self._passed[digest] = now + PASSED_SECONDS


def _as_sent(review: Review) -> Json:
    """The object as a client would create it."""
    body = {field: value for field, value in review.object_json().items() if field != "status"}
    meta = {field: value for field, value in (body.get("metadata") or {}).items() if field not in _GIVEN}
    return {**body, "metadata": {**meta, "name": meta.get("name") or review.name}}
