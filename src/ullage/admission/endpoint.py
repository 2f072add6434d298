"""The ASGI application: hooks under paths that end in a token, and `/healthz`, `/readyz`, `/metrics`.

Hooks for other clusters have a path for each. A path that is not known is a 404 before anything of the body is read.

Written on ASGI itself, since a review passes here for every write in the cluster. Whatever happens, "allowed" is only
ever said by a hook: a spent budget and a `Retryable` are "try again", anything else that is raised is a 500, which the
failure policy judges. Hooks whose failures are to pass have all of these judged by it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import Counter, Histogram

from ullage.admission import admission_review
from ullage.admission.caller_limits import CallerLimits, CallerLoads, CallerRefused
from ullage.admission.callers import CLUSTERS, HOOKS, Callers, split_path
from ullage.admission.metrics import Metrics
from ullage.admission.paths import Paths
from ullage.clock import Clock, processor_seconds
from ullage.errors import BadInput, Retryable
from ullage.kube.processor_time import metered, payer
from ullage.kube.review import Decision, Hook, Review, Unreadable
from ullage.serving.bodies import BodyBounds, BodyReader, BodyRefused, Receive, declared_length
from ullage.serving.client_names import CLIENT_NAMES
from ullage.serving.health import TEXT, health_page

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Check = Callable[[], bool]

READY_POLL: Final = 0.05  # seconds
BODIES: Final = BodyBounds(
    what=("review", "reviews"),
    largest=16 * 1024 * 1024,  # two objects of 3 MiB, which may grow in encoding, and room
    most_at_once=64 * 1024 * 1024,
    seconds=10.0,  # an API server sends a review at once, and waits no longer than 30 s for all of it
)
JSON: Final = b"application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    code: int
    body: bytes
    type: bytes = TEXT
    retry_after: int = 0  # seconds; 0: nothing is said about it


@dataclass(frozen=True, slots=True)
class Served:
    """A hook with its meters looked up beforehand."""

    hook: Hook
    allowed: Counter
    refused: Counter
    again: Counter
    throttled: Counter
    failed: Counter
    seconds: Histogram

    @classmethod
    def of(cls, hook: Hook, metrics: Metrics) -> Served:
        results = ("allowed", "refused", "again", "throttled", "error")
        allowed, refused, again, throttled, failed = (metrics.reviews.labels(hook.name, result) for result in results)
        return cls(hook, allowed, refused, again, throttled, failed, metrics.seconds.labels(hook.name))


class Endpoint:
    """`checks` decide readiness: name → whether it holds. They may not depend on being ready."""

    def __init__(
        self,
        hooks: Iterable[Hook],
        *,
        paths: Paths,
        metrics: Metrics,
        clock: Clock,
        checks: Mapping[str, Check],
        callers: Callers | None = None,
        limits: CallerLimits | None = None,
        clients: frozenset[str] | None = None,
        late: Callable[[], None] = lambda: None,
        processor: Callable[[], float] = processor_seconds,
    ) -> None:
        """`clients` are the names of which our own cluster's API servers show a certificate; None: they show none. `late` is
        called where an answer came after the API server had given up."""
        self._paths = paths
        self._clients = clients
        self._late = late
        self._metrics = metrics
        self._clock = clock
        self._checks = checks
        self._callers = callers
        self._processor = processor
        self._served: dict[str, Served] = {}  # by name
        self._elsewhere: dict[str, Served] = {}
        for hook in hooks:
            if hook.name in {*self._served, *self._elsewhere}:
                raise ValueError(f"two hooks are named {hook.name}")
            (self._elsewhere if hook.elsewhere else self._served)[hook.name] = Served.of(hook, metrics)
        self._bodies = BodyReader(BODIES)
        self._loads = CallerLoads(limits or CallerLimits(), clock=clock)
        self.draining = False
        self._was_ready = False
        self._running = 0
        metrics.running.set_function(lambda: self._running)  # asked for when somebody scrapes, not counted by a meter each time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served")
        served, cluster = self._route(scope)
        if served is None:
            page = self._other(scope["method"], scope["path"])
        elif scope["method"] != "POST":
            page = Answer(405, b"reviews are posted\n")
        else:
            page = await self._reviewed(served, scope, receive, cluster=cluster)
        await self._send(page, send)

    def _route(self, scope: Scope) -> tuple[Served | None, str]:
        """The hook behind a path, and the cluster whose registration has it."""
        path = scope["path"]
        hook, mark, caller = path.partition(CLUSTERS)
        if mark and self._callers is not None:
            cluster, _, token = caller.partition("/")
            known = self._callers.is_known(cluster, token)
            return (self._elsewhere.get(hook.removeprefix(HOOKS)) if known and hook.startswith(HOOKS) else None), cluster
        name, token = split_path(path)
        known = self._paths.is_known(name, token) and self._shows_certificate(scope)
        return (self._served.get(name) if known else None), ""

    def _shows_certificate(self, scope: Scope) -> bool:
        return self._clients is None or not self._clients.isdisjoint(scope.get(CLIENT_NAMES, ()))

    async def _reviewed(self, served: Served, scope: Scope, receive: Receive, *, cluster: str) -> Answer:
        began, declared = self._clock.monotonic(), declared_length(scope.get("headers", []))
        bodies = (
            self._loads.body(cluster, receive, declared=declared) if cluster else self._bodies.body(receive, declared=declared)
        )
        try:
            async with bodies as body:
                answering = self._answered(served, scope, body, began, cluster=cluster)
                return await metered(answering, payer(), processor=self._processor)
        except CallerRefused as error:
            served.throttled.inc()
            return Answer(429, f"{error}\n".encode(), retry_after=error.seconds)
        except BodyRefused as error:
            return Answer(error.code, f"{error}\n".encode())
        except BadInput as error:
            return Answer(400, f"{error}\n".encode())

    async def _answered(self, served: Served, scope: Scope, body: bytes, began: float, *, cluster: str) -> Answer:
        request = admission_review.decode(body)
        asked = admission_review.asked_timeout(scope["query_string"], served.hook.timeout)
        budget = admission_review.budget(asked)
        review = Review(request, began + budget, cluster)
        self._running += 1
        try:
            decision = await self._decide(served.hook, review, budget - (self._clock.monotonic() - began))
            page = Answer(200, admission_review.encode(review, decision), JSON)
        except Exception:
            served.failed.inc()
            logger.exception("review failed", extra={"hook": served.hook.name, "review": review.uid, "cluster": cluster})
            return Answer(500, f"hook {served.hook.name} failed; its log says why\n".encode())
        finally:
            self._running -= 1
            seconds = self._clock.monotonic() - began
            served.seconds.observe(seconds)
            if not cluster and seconds >= asked:
                self._late()
        self._count(served, decision)
        return page

    async def _decide(self, hook: Hook, review: Review, seconds: float) -> Decision:
        try:
            async with asyncio.timeout(seconds) as limit:
                await self._until_ready()
                if review.cluster and self._callers is not None:
                    self._callers.must_follow(review.cluster)
                decision = await hook.answer(review)
        except TimeoutError:
            if not limit.expired():
                raise
            return _too_late(hook, seconds)
        except Unreadable as error:
            return Decision.invalid(str(error), error.cause)
        except Retryable as error:
            if hook.failure_policy == "Ignore":
                raise  # its author wants failures to pass, and only an error does
            return Decision.again(str(error), retry_after=getattr(error, "retry_after", None) or 1.0)
        if self._clock.monotonic() > review.deadline:  # a hook that never paused: what it says comes too late
            return _too_late(hook, seconds)
        if decision.patch and hook.phase == "validate":
            raise TypeError(f"hook {hook.name} validates, it cannot change the object")
        return decision

    async def _until_ready(self) -> None:
        """A replica that has just begun to listen on a shared port is asked at once, however little it knows yet."""
        while not self._was_ready:
            self._was_ready = all(check() for check in self._checks.values())
            if not self._was_ready:
                await asyncio.sleep(READY_POLL)

    def _count(self, served: Served, decision: Decision) -> None:
        if decision.allowed:
            served.allowed.inc()
        elif decision.retry_after:
            served.again.inc()
        else:
            served.refused.inc()
            self._metrics.denied.labels(served.hook.name, decision.reason).inc()

    def _other(self, method: str, path: str) -> Answer:
        if method not in ("GET", "HEAD"):
            return Answer(404, b"no such hook\n")
        found = health_page(path, self._readiness, lambda: [self._metrics.registry])
        return Answer(404, b"not found\n") if found is None else Answer(*found)

    def _readiness(self) -> dict[str, bool]:
        return {"serving": not self.draining} | {name: check() for name, check in self._checks.items()}

    async def _send(self, page: Answer, send: Send) -> None:
        headers = [(b"content-type", page.type), (b"content-length", str(len(page.body)).encode())]
        if page.retry_after:
            headers.append((b"retry-after", str(page.retry_after).encode()))
        if self.draining:
            headers.append((b"connection", b"close"))  # else a next request meets a closed connection, and its write fails
        await send({"type": "http.response.start", "status": page.code, "headers": headers})
        await send({"type": "http.response.body", "body": page.body})


def _too_late(hook: Hook, seconds: float) -> Decision:
    text = f"{hook.name} could not decide within {seconds:.1f} s"
    if hook.failure_policy == "Ignore":
        raise Retryable(text)  # its author wants failures to pass, and only an error does
    return Decision.again(text)
