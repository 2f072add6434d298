"""The ASGI application: from a request to a route's answer.

The order of the checks is what keeps a stranger from learning anything: path and method, which the document tells everybody;
then who asks; then whether he may, in that namespace; and only then what he says, and whether there is such an object. A body
is not read before that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from ullage.clock import Clock
from ullage.errors import UllageError
from ullage.kube.errors import ApiError
from ullage.kube.review import UserInfo
from ullage.kube.routes import NAMESPACE, Declined, Route, RouteCall, filled
from ullage.rest import answers
from ullage.rest.answers import Page
from ullage.rest.authorization import Authorization
from ullage.rest.metrics import Metrics
from ullage.rest.routing import Found, Place, Table, chosen, impossible, parameters
from ullage.serving.bodies import BodyBounds, BodyReader, BodyRefused, Receive, declared_length
from ullage.serving.health import health_page

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Check = Callable[[], bool]

REQUEST_SECONDS: Final = 30.0  # from its head to its answer
BODIES: Final = BodyBounds(what=("request", "requests"), largest=64 * 1024, most_at_once=4 * 1024 * 1024, seconds=10.0)
_REASONS: Final = {400: "BadRequest", 408: "Timeout", 413: "RequestEntityTooLarge", 503: "ServiceUnavailable"}


class Endpoint:
    """`checks` decide readiness: name → whether it holds. `public` are pages that everybody may see, by path."""

    def __init__(
        self,
        routes: Iterable[Route],
        *,
        authorization: Authorization,
        public: Mapping[str, Page],
        metrics: Metrics,
        clock: Clock,
        checks: Mapping[str, Check],
    ) -> None:
        self._table = Table.of(routes)
        self._authorization = authorization
        self._public = public
        self._metrics = metrics
        self._clock = clock
        self._checks = checks
        self._bodies = BodyReader(BODIES)
        self._running = 0
        self.draining = False
        metrics.running.set_function(lambda: self._running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served")
        page = await self._page(scope, receive)
        if self.draining:  # else a next request meets a closed connection, and its write fails
            page = page.with_headers((b"connection", b"close"))
        body = b"" if scope["method"] == "HEAD" else page.body
        await send({"type": "http.response.start", "status": page.code, "headers": page.wire_headers()})
        await send({"type": "http.response.body", "body": body})

    async def _page(self, scope: Scope, receive: Receive) -> Page:
        method: str = scope["method"]
        public = self._open(scope["path"])
        if public is not None:
            if method == "OPTIONS":
                return Page(204).with_headers(answers.allow(("GET", "HEAD", "OPTIONS")))
            return public if method in ("GET", "HEAD") else _wrong_method(method, ("GET", "HEAD", "OPTIONS"))
        found = self._table.find(scope.get("raw_path") or scope["path"].encode())
        if found is None:
            return answers.of_refusal(Declined(404, "NotFound", "there is nothing at this path; / lists what there is"))
        allowed = (*found.methods, "OPTIONS")
        if method == "OPTIONS":
            return Page(204).with_headers(answers.allow(allowed))
        if method not in found.methods:
            return _wrong_method(method, allowed)
        return await self._measured(found, found.methods[method], scope, receive)

    # --- routes ----------------------------------------------------------------------------------------------------------

    async def _measured(self, found: Found, place: Place, scope: Scope, receive: Receive) -> Page:
        began = self._clock.monotonic()
        self._running += 1
        name = place.routes[0].name if len(place.routes) == 1 else "unknown"
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                route, page = await self._answered(found, place, scope, receive)
                name = route.name if route else name
        except TimeoutError:
            page = answers.of_refusal(
                Declined(504, "Timeout", f"not done within {REQUEST_SECONDS:.0f} s; it may have been done all the same")
            )
        finally:
            self._running -= 1
        self._metrics.requests.labels(name, str(page.code)).inc()
        self._metrics.seconds.labels(name).observe(self._clock.monotonic() - began)
        return page

    async def _answered(self, found: Found, place: Place, scope: Scope, receive: Receive) -> tuple[Route | None, Page]:
        route = None
        try:
            user = await self._let_in(found, place, scope)
            route = chosen(place, scope["query_string"])
            query = parameters(route, scope["query_string"])
            body = await self._body(route, scope, receive)
            reply = await route.answer(RouteCall(user=user, names=found.names, query=query, body=body))
            # The API server's own audit log knows only us: this is where it stands who asked.
            about = {"route": route.name, "user": user.username, "object": "/".join(found.names.values())}
            logger.info("request done", extra=about)
            return route, answers.of_reply(route, reply)
        except Declined as declined:
            return route, answers.of_refusal(declined, route)
        except ApiError as error:
            told = answers.from_api(error)
            if told.code >= 500:
                failed = {"route": route.name if route else "", "error": str(error), "code": error.code}
                logger.warning("the Kubernetes API did not do it", extra=failed)
            return route, answers.of_refusal(told, route)
        except UllageError as error:
            logger.warning("request failed", extra={"route": route.name if route else "", "error": str(error)})
        except Exception:  # the end of the request's own time is none: it comes as a cancellation
            logger.exception("request failed", extra={"route": route.name if route else ""})
        return route, answers.of_refusal(answers.internal("this server could not do it; its log says why"))

    async def _let_in(self, found: Found, place: Place, scope: Scope) -> UserInfo:
        """Who asks, if he may."""
        async with self._authorization.place():
            user = await self._authorization.caller(scope["headers"])
            wrong = impossible(found.names)
            if wrong is not None:
                raise Declined(404, "NotFound", f"there is no {wrong[0]} that is called {wrong[1]}")
            access = place.routes[0].access
            if any(route.access != access for route in place.routes):  # then which action it is has to be known first
                access = chosen(place, scope["query_string"]).access
            access = replace(access, name=filled(access.name, found.names))
            await self._authorization.check(user, access, namespace=found.names.get(NAMESPACE, ""))
            return user

    async def _body(self, route: Route, scope: Scope, receive: Receive) -> Any:
        if route.body is None:
            return None
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        _check_type(headers)
        try:
            async with self._bodies.body(receive, declared=declared_length(headers)) as body:
                return msgspec.json.decode(body, type=route.body)
        except BodyRefused as refused:
            wait = 1 if refused.code == 503 else 0
            raise Declined(refused.code, _REASONS[refused.code], str(refused), retry_after=wait) from None
        except msgspec.ValidationError as error:
            problem, mark, path = str(error).partition(" - at `$")
            raise Declined.invalid(path.rstrip("`").removeprefix(".") if mark else "", problem) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Declined.invalid("", "Failed to decode request body: it is not JSON") from None

    # --- what everybody may see ------------------------------------------------------------------------------------------

    def _open(self, path: str) -> Page | None:
        found = health_page(path, self._readiness, lambda: [self._metrics.registry])
        return self._public.get(path) if found is None else Page(*found)

    def _readiness(self) -> dict[str, bool]:
        return {"serving": not self.draining} | {name: check() for name, check in self._checks.items()}


def _wrong_method(method: str, allowed: tuple[str, ...]) -> Page:
    message = f"{method} is not served at this path; {', '.join(allowed)} is"
    return answers.of_refusal(Declined(405, "MethodNotAllowed", message)).with_headers(answers.allow(allowed))


def _check_type(headers: list[tuple[bytes, bytes]]) -> None:
    given = next((value for name, value in headers if name == b"content-type"), b"application/json")
    encoded = any(name == b"content-encoding" and value.strip().lower() != b"identity" for name, value in headers)
    if encoded or given.partition(b";")[0].strip().lower() != b"application/json":
        raise Declined(415, "UnsupportedMediaType", "the body must be application/json, and not compressed")
