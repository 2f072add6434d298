"""watch: a position in a storage's history, moving forward.

A watch holds no queue. It remembers the revision it has sent, takes some of what came after it, sends that in pieces and
waits for the client to take them. However slow a client is, it costs nobody anything; if it falls behind what is kept, it is
told so (410) and starts over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial as bind

import msgspec

from ullage.clock import Clock
from ullage.standalone.apiserver.handlers.reads import wanted
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.kinds.versions import View, view
from ullage.standalone.apiserver.limits.deliveries import Deliveries, in_time
from ullage.standalone.apiserver.limits.pieces import Part
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.answers import Stream
from ullage.standalone.apiserver.request.filter import Filter
from ullage.standalone.apiserver.request.list_options import ListOptions, list_options
from ullage.standalone.apiserver.request.negotiation import Want, parse_include
from ullage.standalone.apiserver.request.parameters import revision
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.status import expired
from ullage.standalone.apiserver.storage.entries import Entry, Event
from ullage.standalone.apiserver.storage.store import Compacted, Store
from ullage.standalone.apiserver.tables.table import partial, render

BOOKMARK_SECONDS = 60.0
DEFAULT_TIMEOUT = 45 * 60.0  # kube-apiserver picks 30 to 60 minutes
CHUNK = 500  # objects that a watch begins with are looked at in steps, between which others get their turn
CHUNK_BYTES = 256 << 10  # and not more than this, or one object
SMALL = 4 << 10  # bytes up to which copying an object is cheaper than sending its event in parts
INITIAL_END = {"k8s.io/initial-events-end": "true"}

_encode = msgspec.json.encode
_decode = msgspec.json.decode

Line = Callable[[str, bytes, int], tuple[Part, ...]]  # event type, object in the served version, its revision
Lines = Callable[[Resource], Line]


class Watcher:
    def __init__(
        self, store: Store, clock: Clock, current: Callable[[Resource], Resource | None], deliveries: Deliveries
    ) -> None:
        self._store = store
        self._clock = clock
        self._current = current  # a watch outlives a change of its kind's schema, not the kind
        self._deliveries = deliveries
        self._closing = False

    def close(self) -> None:
        """Ends every watch as if its time were up: the server stops."""
        self._closing = True
        self._store.wake()

    def watch(self, request: Request, resource: Resource) -> Stream:
        want = wanted(request, resource, watch=True)
        options = list_options(request, resource, watch=True)
        if want.table:
            parse_include(request.param("includeObject"))
        position = revision(options.rv)
        lines = bind(self._lines, request, want)
        return Stream(self._chunks(resource, options, position, lines), f"{want.media}")

    def _lines(self, request: Request, want: Want, resource: Resource) -> Line:
        """How one event is written: the object itself, or a Table row, or its metadata."""
        if not want.kind:
            return _line
        include = parse_include(request.param("includeObject")) if want.table else "None"
        first = True

        def shaped(kind: str, data: bytes, rv: int) -> tuple[Part, ...]:
            nonlocal first
            obj = _decode(data)
            if want.table:
                meta = {"resourceVersion": str(rv)}
                # A bookmark without its object would lose what it says beside the position.
                carried = "Metadata" if kind == "BOOKMARK" and include == "None" else include
                table = render(resource, [obj], now=self._clock.now(), include=carried, headers=first, list_meta=meta)
                first = False
                body = table | {"apiVersion": want.api_version}
            else:
                body = partial(obj) | {"apiVersion": want.api_version}
            return (_encode({"type": kind, "object": body}), b"\n")

        return shaped

    async def _chunks(
        self, resource: Resource, options: ListOptions, position: int, lines: Lines
    ) -> AsyncGenerator[bytes, None]:
        deadline = self._clock.monotonic() + (options.timeout or DEFAULT_TIMEOUT)
        line, shown = lines(resource), view(resource)
        if options.initial_events or (options.initial_events is None and options.rv in ("", "0")):
            position = self._store.revision
            async with aclosing(self._initial(resource, options, line)) as initial:
                async for chunk in initial:
                    yield chunk
            if options.initial_events and options.bookmarks:
                yield b"".join(line("BOOKMARK", _bookmark(resource, position, INITIAL_END), position))
        elif options.rv in ("", "0"):
            position = self._store.revision
        bookmark_at = self._clock.monotonic() + BOOKMARK_SECONDS
        while (served := self._served(resource)) is not None:
            if served is not resource:
                resource, line, shown = served, lines(served), view(served)
            seen = self._store.revision
            try:
                events = await self._store.changes(resource.storage, position, before=not options.filter.trivial)
            except Compacted:
                yield _error(expired(f"too old resource version: {position} ({self._store.compacted})").status())
                return
            if events:
                position = events[-1].rv
                size = sum(event.size for event in events)
                async with aclosing(self._deliveries.send(_select(events, options.filter, shown, line), size)) as sent:
                    async for piece in sent:
                        yield piece
                continue
            position = max(position, seen)
            now = self._clock.monotonic()
            if now >= deadline:
                break
            if options.bookmarks and now >= bookmark_at:
                yield b"".join(line("BOOKMARK", _bookmark(resource, position), position))
                bookmark_at = now + BOOKMARK_SECONDS
            wait = min(deadline, bookmark_at if options.bookmarks else deadline) - now
            await self._store.changed(resource.storage, position, wait)
        if options.bookmarks:
            yield b"".join(line("BOOKMARK", _bookmark(resource, position), position))

    def _served(self, resource: Resource) -> Resource | None:
        """The kind as it is served now; None when the watch has to end."""
        served = self._current(resource)
        same = served is not None and served.definition == resource.definition
        return served if same and not self._closing else None

    async def _initial(self, resource: Resource, options: ListOptions, line: Line) -> AsyncGenerator[bytes, None]:
        """The objects as they stand at the call. Entries do not change, so the state is one however long this takes."""
        entries = self._store.items(resource.storage, options.filter.namespace)
        entries.reverse()
        while entries:
            some: list[Entry] = []
            size = 0
            while entries and len(some) < CHUNK and size < CHUNK_BYTES:
                some.append(entries.pop())  # and what is sent is held no longer
                size += len(some[-1].data)
            lines = _added(some, options.filter, view(resource), line)
            async with aclosing(in_time(self._deliveries.send(lines, size))) as sent:
                async for piece in sent:
                    yield piece
            await asyncio.sleep(0)


def _line(kind: str, data: bytes, rv: int) -> tuple[Part, ...]:
    """An event with the object as it is."""
    parts = (b'{"type":"' + kind.encode() + b'","object":', data, b"}\n")
    return (b"".join(parts),) if len(data) < SMALL else parts


def _added(entries: list[Entry], chosen: Filter, shown: View, line: Line) -> Iterator[Part]:
    """The objects that a watch begins with."""
    for entry in entries:
        if chosen.has_key(entry.key):
            data = shown.data(entry.data, entry.rv)
            if chosen.matches(data):
                yield from line("ADDED", data, entry.rv)


def _select(events: list[Event], chosen: Filter, shown: View, line: Line) -> Iterator[Part]:
    """The events a watch sends: an object that starts or stops matching comes as ADDED or DELETED."""
    for event in events:
        if not chosen.has_key(event.key):
            continue
        data = shown.data(event.data, event.rv)
        if chosen.trivial:
            yield from line(event.type, data, event.rv)
            continue
        before = shown.data(event.before, event.rv) if event.before is not None else None
        matched = before is not None and chosen.matches(before)
        if event.type == "DELETED":
            if matched:
                yield from line("DELETED", data, event.rv)
        elif chosen.matches(data):
            yield from line("MODIFIED" if matched else "ADDED", data, event.rv)
        elif matched and before is not None:
            yield from line("DELETED", _at(before, event.rv), event.rv)


def _at(data: bytes, rv: int) -> bytes:
    """The object as it was, at the revision at which it left the selection."""
    obj = _decode(data)
    obj["metadata"]["resourceVersion"] = str(rv)
    return _encode(obj)


def _bookmark(resource: Resource, rv: int, annotations: Json | None = None) -> bytes:
    """An object that is nothing but its position."""
    meta: Json = {"resourceVersion": str(rv)}
    if annotations:
        meta["annotations"] = annotations
    body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    return _encode(body)


def _error(status: Json) -> bytes:
    return _encode({"type": "ERROR", "object": status}) + b"\n"
