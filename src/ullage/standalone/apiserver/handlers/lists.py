"""Objects as answers, one or a list: short ones whole, long ones piece by piece, since a client may be slow or never read.

A long list goes out as its objects are stored, so that it costs no memory but what a piece takes, however many clients ask
for it. What is made for one client alone, a row of a Table or another version of an object, is made when its turn comes, and
counts among the `Deliveries` while it is large. Long answers are JSON without indents: YAML would hold up everybody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, groupby
from typing import Final

import msgspec

from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.kinds.versions import view
from ullage.standalone.apiserver.limits.deliveries import Deliveries, in_time
from ullage.standalone.apiserver.limits.pieces import PIECE, Part, pieces
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.answers import Answer, Stream
from ullage.standalone.apiserver.request.negotiation import Include, Want, dump, parse_include
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.storage.entries import Entry
from ullage.standalone.apiserver.tables.table import partial, partial_list, render

TURN: Final = 512 * 1024  # bytes of objects that are decoded before others have their turn
WHOLE: Final = 128 * 1024  # bytes of objects up to which an answer is made at once

_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Item:
    """A part of an answer, made when it is asked for. `held` is what that takes in memory, for this answer alone."""

    parts: Iterator[Part]
    held: int


def answer_list(
    request: Request,
    resource: Resource,
    entries: Sequence[Entry],
    meta: Json,
    *,
    want: Want,
    now: datetime,
    deliveries: Deliveries,
) -> Answer | Stream:
    """The list of the entries in the form that is wanted."""
    if want.kind:
        want.check(resource.list_kind, is_list=True)
    short = sum(len(entry.data) for entry in entries) <= WHOLE
    if not want.kind:
        if short:
            return Answer(200, dump(view(resource).listed(entries, meta), want), want.media)
        groups = (_items(resource, some) for some in batches(entries))
        return _streamed(view(resource).list_head(meta), b'"items":[', groups, want=want, deliveries=deliveries)
    if short:
        objects = [view(resource).obj(entry.data, entry.rv) for entry in entries]
        return Answer(200, dump(_shaped(request, resource, objects, meta, want=want, now=now), want), want.media)
    return _long_rows(request, resource, batches(entries), meta, want=want, now=now, deliveries=deliveries)


def answer_one(
    request: Request, resource: Resource, entry: Entry, *, want: Want, now: datetime, code: int, deliveries: Deliveries
) -> Answer | Stream:
    """One object in the form that is wanted: itself, a Table of it, or its metadata."""
    if want.kind:
        want.check(resource.kind, is_list=False)
    if len(entry.data) > WHOLE:
        return _long_one(request, resource, entry, want=want, now=now, code=code, deliveries=deliveries)
    if not want.kind:
        return Answer(code, dump(view(resource).data(entry.data, entry.rv), want), want.media)
    obj = view(resource).obj(entry.data, entry.rv)
    if want.table:
        shaped = _shaped(request, resource, [obj], {"resourceVersion": str(entry.rv)}, want=want, now=now)
    else:
        shaped = partial(obj) | {"apiVersion": want.api_version}
    return Answer(code, dump(shaped, want), want.media)


def _long_one(
    request: Request, resource: Resource, entry: Entry, *, want: Want, now: datetime, code: int, deliveries: Deliveries
) -> Stream:
    if want.table:
        meta = {"resourceVersion": str(entry.rv)}
        return _long_rows(request, resource, [[entry]], meta, want=want, now=now, deliveries=deliveries, code=code)

    def parts() -> Iterator[Part]:
        if want.kind:
            yield _encode(partial(view(resource).obj(entry.data, entry.rv)) | {"apiVersion": want.api_version})
        else:
            yield view(resource).data(entry.data, entry.rv)

    # The stored bytes count as well: they are the last of their kind when the object has changed meanwhile.
    return Stream(in_time(deliveries.send(parts(), len(entry.data))), want.media, code=code)


def _long_rows(
    request: Request,
    resource: Resource,
    some: Iterable[Sequence[Entry]],
    meta: Json,
    *,
    want: Want,
    now: datetime,
    deliveries: Deliveries,
    code: int = 200,
) -> Stream:
    """A Table, or a list of metadata: its head first, then the entries, batch after batch."""
    head = _shaped(request, resource, [], meta, want=want, now=now)
    member = "rows" if want.table else "items"
    del head[member]
    groups = (_rows(request, resource, batch, want=want, now=now) for batch in some)
    return _streamed(_encode(head), f'"{member}":['.encode(), groups, want=want, deliveries=deliveries, code=code)


def _shaped(request: Request, resource: Resource, objects: Sequence[Json], meta: Json, *, want: Want, now: datetime) -> Json:
    """A Table of the objects, or a list of their metadata."""
    if want.table:
        include = parse_include(request.param("includeObject"))
        table = render(resource, objects, now=now, include=include, headers=True, list_meta=meta)
        return table | {"apiVersion": want.api_version}
    return partial_list(objects, list_meta=meta) | {"apiVersion": want.api_version}


def _streamed(
    head: bytes, member: bytes, groups: Iterable[Iterator[Item]], *, want: Want, deliveries: Deliveries, code: int = 200
) -> Stream:
    return Stream(in_time(_pieces(head[:-1] + b"," + member, groups, deliveries)), want.media, code=code)


async def _pieces(head: bytes, groups: Iterable[Iterator[Item]], deliveries: Deliveries) -> AsyncGenerator[bytes, None]:
    yield head
    between: tuple[Part, ...] = ()
    for group in groups:
        for large, items in groupby(group, lambda item: item.held > PIECE):
            if not large:
                for piece in pieces(_joined(items, between)):
                    yield piece
                    await asyncio.sleep(0)  # others get their turn, also where nobody waits for the client
                between = (b",",)
                continue
            for item in items:
                async with aclosing(deliveries.send(chain(between, item.parts), item.held)) as sent:
                    async for piece in sent:
                        yield piece
                between = (b",",)
    yield b"]}"


def _joined(items: Iterator[Item], between: tuple[Part, ...]) -> Iterator[Part]:
    for item in items:
        yield from between
        yield from item.parts
        between = (b",",)


def batches(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """The entries, some at a time: what is decoded while others wait."""
    first = size = 0
    for index, entry in enumerate(entries):
        size += len(entry.data)
        if size >= TURN:
            yield entries[first : index + 1]
            first, size = index + 1, 0
    if first < len(entries):
        yield entries[first:]


def _items(resource: Resource, entries: Sequence[Entry]) -> Iterator[Item]:
    shown = view(resource)
    for entry in entries:
        if shown.is_stored(entry.data, entry.rv):
            yield Item(iter(shown.item(entry)), 0)
        else:
            yield Item(_converted(resource, entry), len(entry.data))


def _converted(resource: Resource, entry: Entry) -> Iterator[Part]:
    yield from view(resource).item(entry)


def _rows(request: Request, resource: Resource, entries: Sequence[Entry], *, want: Want, now: datetime) -> Iterator[Item]:
    """Rows of a Table, or metadata."""
    include: Include = parse_include(request.param("includeObject")) if want.table else "Metadata"
    for entry in entries:
        # A cell may hold nearly all of an object, so a row is as large as that; while it is made the object is there, too.
        yield Item(_row(resource, entry, include, want=want, now=now), 2 * len(entry.data))


def _row(resource: Resource, entry: Entry, include: Include, *, want: Want, now: datetime) -> Iterator[Part]:
    """One row. An object in it is sent as it is stored, and not encoded again."""
    row = _encoded_row(resource, entry, include, want=want, now=now)
    if include != "Object":
        yield row
        return
    yield memoryview(row)[:-1]
    yield b',"object":'
    yield view(resource).data(entry.data, entry.rv)
    yield b"}"


def _encoded_row(resource: Resource, entry: Entry, include: Include, *, want: Want, now: datetime) -> bytes:
    """The row without an object that is sent as it is stored. What is decoded for it goes before the client takes it."""
    obj = view(resource).obj(entry.data, entry.rv)
    if not want.table:
        return _encode(partial(obj))
    whole = include == "Object"
    (row,) = render(resource, [obj], now=now, include="None" if whole else include, headers=False, list_meta={})["rows"]
    if whole:
        del row["object"]
    return _encode(row)
