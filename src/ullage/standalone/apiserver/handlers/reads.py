"""get and list."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from ullage.clock import Clock
from ullage.standalone.apiserver.handlers.lists import answer_list, answer_one, batches
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.kinds.versions import view
from ullage.standalone.apiserver.limits.deliveries import Deliveries
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.answers import Answer, Stream
from ullage.standalone.apiserver.request.continuation import ContinueToken
from ullage.standalone.apiserver.request.list_options import ListOptions, list_options
from ullage.standalone.apiserver.request.negotiation import CONVERSIONS, NO_TABLE, Want, dump, negotiate
from ullage.standalone.apiserver.request.parameters import revision, too_large_version
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.status import ApiError, bad_request, expired, not_acceptable, not_found
from ullage.standalone.apiserver.storage.entries import Entry, Key
from ullage.standalone.apiserver.storage.store import Compacted, Store
from ullage.standalone.apiserver.tables.table import partial

_EXPIRED_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted "
    "between the time the first chunk was returned and now may show up in the list."
)


def wanted(request: Request, resource: Resource, *, watch: bool = False, virtual: bool = False) -> Want:
    """The shape in which the client wants its answer; `virtual` ones are never stored. Raises 406 before anything is done."""
    accept = request.headers.get("accept", "")
    try:
        return negotiate(accept, watch=watch, conversions=NO_TABLE if virtual else CONVERSIONS)
    except ApiError:
        if resource.custom is not None:
            raise
        medias = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
        if any(media in accept for media in (*medias, "*/*")):
            raise not_acceptable(medias) from None
        medias += ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"]
        text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(medias)}"
        raise ApiError(406, "NotAcceptable", text, details={}) from None


def virtual_answer(obj: Json, want: Want) -> Answer:
    """What a create answers that stores nothing."""
    if want.kind:
        want.check(obj["kind"], is_list=False)
        obj = partial(obj, api_version=want.api_version)
    return Answer(201, dump(obj, want), want.media)


class Reader:
    def __init__(self, store: Store, clock: Clock, deliveries: Deliveries) -> None:
        self._store = store
        self._clock = clock
        self._deliveries = deliveries

    def now(self) -> datetime:
        return self._clock.now()

    def get(self, request: Request, resource: Resource) -> Answer | Stream:
        want = wanted(request, resource)
        asked = revision(request.param("resourceVersion"))
        if asked > self._store.revision:
            raise too_large_version(asked, self._store.revision)
        entry = self.find(resource, request.target.namespace, request.target.name)
        return self.one(request, resource, entry, want=want)

    def find(self, resource: Resource, namespace: str, name: str) -> Entry:
        entry = self._store.get(resource.storage, namespace if resource.namespaced else "", name)
        if entry is None:
            raise not_found(resource.group, resource.plural, name)
        return entry

    def one(self, request: Request, resource: Resource, entry: Entry, *, want: Want, code: int = 200) -> Answer | Stream:
        """One object, as the client wants it."""
        now, deliveries = self._clock.now(), self._deliveries
        return answer_one(request, resource, entry, want=want, now=now, code=code, deliveries=deliveries)

    def listed(
        self, request: Request, resource: Resource, entries: Sequence[Entry], meta: Json, *, want: Want
    ) -> Answer | Stream:
        """The list of the entries, as the client wants it."""
        now, deliveries = self._clock.now(), self._deliveries
        return answer_list(request, resource, entries, meta, want=want, now=now, deliveries=deliveries)

    async def list_objects(self, request: Request, resource: Resource) -> Answer | Stream:
        want = wanted(request, resource)
        options = list_options(request, resource, watch=False)
        entries, meta = await self.select(resource, options)
        return self.listed(request, resource, entries, meta, want=want)

    async def select(self, resource: Resource, options: ListOptions) -> tuple[list[Entry], Json]:
        """The objects that a list shows, and the list's metadata."""
        at, start = self._position(options)
        # A list from the cache ("at least this old") is never cut in pages: kube-apiserver serves it whole.
        limit = 0 if options.rv == "0" and not options.token else options.limit
        trivial = options.filter.trivial and not options.filter.name
        if not limit and at == self._store.revision and start == ("", ""):
            entries = await self._all(resource, options)
            return entries, {"resourceVersion": str(at)}
        found = await self._page(resource, options, at=at, start=start, want=limit + 1 if limit else 0)
        more = bool(limit) and len(found) > limit
        if not more:
            return found, {"resourceVersion": str(at)}
        found = found[:limit]
        meta: Json = {"resourceVersion": str(at), "continue": ContinueToken(at, found[-1].key).encode()}
        if trivial:
            meta["remainingItemCount"] = await self._rest(resource, options, at=at, start=found[-1].key)
        return found, meta

    async def _all(self, resource: Resource, options: ListOptions) -> list[Entry]:
        chosen = options.filter
        if chosen.name and (chosen.namespace or not resource.namespaced):
            entry = self._store.get(resource.storage, chosen.namespace, chosen.name)
            entries = [entry] if entry else []
        else:
            entries = self._store.items(resource.storage, chosen.namespace)
        if chosen.trivial:
            return entries
        shown, found = view(resource), []
        for some in batches(entries):
            found += [e for e in some if chosen.has_key(e.key) and chosen.matches(shown.data(e.data, e.rv))]
            await asyncio.sleep(0)
        return found

    def _position(self, options: ListOptions) -> tuple[int, Key]:
        """Revision and key from which the list reads."""
        current = self._store.revision
        if options.token is not None:
            if options.rv not in ("", "0"):
                raise bad_request("specifying resource version is not allowed when using continue")
            if options.token.rv > current:
                raise too_large_version(options.token.rv, current)
            return (options.token.rv if options.token.rv >= 0 else current), options.token.start
        try:
            asked = revision(options.rv)
        except ApiError as error:
            raise bad_request(f"invalid resource version: {error.message}") from None
        if asked > current:
            raise too_large_version(asked, current)
        exact = options.match == "Exact" or (options.limit and asked and not options.match)
        return (asked if exact else current), ("", "")

    async def _page(self, resource: Resource, options: ListOptions, *, at: int, start: Key, want: int) -> list[Entry]:
        """Up to `want` matching objects (0: all), reading on where the filter drops some."""
        found: list[Entry] = []
        shown = view(resource)
        while True:
            limit = max(want - len(found), 500) if want else 0
            batch = await self._fetch(resource, options, at=at, start=start, limit=limit)
            if not batch:
                return found
            for some in batches(batch):
                found += [e for e in some if options.filter.has_key(e.key) and options.filter.matches(shown.data(e.data, e.rv))]
                if want and len(found) >= want:
                    return found[:want]
                await asyncio.sleep(0)
            start = batch[-1].key

    async def _rest(self, resource: Resource, options: ListOptions, *, at: int, start: Key) -> int:
        try:
            return await self._store.remaining(resource.storage, at=at, namespace=options.filter.namespace, start=start)
        except Compacted:
            raise _expired_token(start) from None

    async def _fetch(self, resource: Resource, options: ListOptions, *, at: int, start: Key, limit: int) -> list[Entry]:
        try:
            return await self._store.page(resource.storage, at=at, namespace=options.filter.namespace, start=start, limit=limit)
        except Compacted:
            if options.token is None:
                raise expired("The resourceVersion for the provided list is too old.") from None
            raise _expired_token(start) from None


def _expired_token(start: Key) -> ApiError:
    """410, with a token that goes on from the same key at whatever is current then."""
    error = expired(_EXPIRED_TOKEN)
    error.list_meta = {"continue": ContinueToken(-1, start).encode()}
    return error
