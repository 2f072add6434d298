"""The answer to a list: whole if it is short; piece by piece if it is long, since a client may be slow to read it, or never do.

A long list goes out as its objects are stored, so that it costs no memory but what a piece takes, however many clients ask
for it. Tables are made row by row. In YAML long answers are JSON, which is YAML: its own form would hold up everybody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.kinds.versions import view
from ullage.standalone.apiserver.limits.deliveries import in_time
from ullage.standalone.apiserver.limits.pieces import Part, pieces
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.answers import Answer, Stream
from ullage.standalone.apiserver.request.negotiation import Include, Want, dump, parse_include
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.storage.entries import Entry
from ullage.standalone.apiserver.tables.table import partial, partial_list, render

TURN: Final = 512 * 1024  # bytes of objects that are decoded before others have their turn
WHOLE: Final = 1 << 20  # bytes up to which a list is one answer

_encode = msgspec.json.encode
Parts = tuple[Part, ...]  # of one item


def answer_list(
    request: Request, resource: Resource, entries: Sequence[Entry], meta: Json, *, want: Want, now: datetime
) -> Answer | Stream:
    """The list of the entries in the form that is wanted."""
    if want.kind:
        want.check(resource.list_kind, is_list=True)
    short = sum(len(entry.data) for entry in entries) <= WHOLE
    if not want.kind:
        if short:
            return Answer(200, dump(view(resource).listed(entries, meta), want), want.media)
        groups = (_items(resource, some) for some in batches(entries))
        chunks = _pieces(view(resource).list_head(meta), b'"items":[', groups)
        return Stream(in_time(chunks), want.media)
    if short:
        objects = [view(resource).obj(entry.data, entry.rv) for entry in entries]
        return Answer(200, dump(_shaped(request, resource, objects, meta, want=want, now=now), want), want.media)
    head = _shaped(request, resource, [], meta, want=want, now=now)
    rows = b'"rows":[' if want.table else b'"items":['
    del head["rows" if want.table else "items"]
    groups = (_rows(request, resource, some, want=want, now=now) for some in batches(entries))
    chunks = _pieces(_encode(head), rows, groups)
    return Stream(in_time(chunks), want.media)


def shaped_one(request: Request, resource: Resource, obj: Json, *, want: Want, now: datetime) -> Json:
    """A Table of one object, or its metadata alone."""
    if not want.table:
        return partial(obj) | {"apiVersion": want.api_version}
    meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
    return _shaped(request, resource, [obj], meta, want=want, now=now)


def _shaped(request: Request, resource: Resource, objects: Sequence[Json], meta: Json, *, want: Want, now: datetime) -> Json:
    """A Table of the objects, or a list of their metadata."""
    if want.table:
        include = parse_include(request.param("includeObject"))
        table = render(resource, objects, now=now, include=include, headers=True, list_meta=meta)
        return table | {"apiVersion": want.api_version}
    return partial_list(objects, list_meta=meta) | {"apiVersion": want.api_version}


async def _pieces(head: bytes, member: bytes, groups: Iterable[Iterator[Parts]]) -> AsyncGenerator[bytes, None]:
    yield head[:-1] + b"," + member
    between: Parts = ()
    for group in groups:
        for piece in pieces(_joined(group, between)):
            yield piece
        await asyncio.sleep(0)  # others get their turn, also where nobody waits for the client
        between = (b",",)
    yield b"]}"


def _joined(items: Iterator[Parts], between: Parts) -> Iterator[Part]:
    for item in items:
        yield from between
        yield from item
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


def _items(resource: Resource, entries: Sequence[Entry]) -> Iterator[Parts]:
    shown = view(resource)
    for entry in entries:
        yield shown.item(entry)


def _rows(request: Request, resource: Resource, entries: Sequence[Entry], *, want: Want, now: datetime) -> Iterator[Parts]:
    """Rows of a Table, or metadata. An object in a row is sent as it is stored, and not encoded again."""
    include: Include = parse_include(request.param("includeObject")) if want.table else "Metadata"
    for entry in entries:
        row = _row(resource, entry, include, want=want, now=now)
        if include == "Object":
            yield row[:-1] + b',"object":', view(resource).data(entry.data, entry.rv), b"}"
        else:
            yield (row,)


def _row(resource: Resource, entry: Entry, include: Include, *, want: Want, now: datetime) -> bytes:
    """One row, without an object that is sent as it is stored. What was decoded for it goes before the client takes it."""
    obj = view(resource).obj(entry.data, entry.rv)
    if not want.table:
        return _encode(partial(obj))
    whole = include == "Object"
    (row,) = render(resource, [obj], now=now, include="None" if whole else include, headers=False, list_meta={})["rows"]
    if whole:
        del row["object"]
    return _encode(row)
