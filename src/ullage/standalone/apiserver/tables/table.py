"""Objects as rows: `meta.k8s.io/v1 Table`, and as metadata alone: `PartialObjectMetadata`.

kubectl prints what it is given here, so a kind's columns live on the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from ullage.standalone.apiserver.kinds.resources import Column, Resource
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.request.negotiation import Include
from ullage.standalone.apiserver.schema import definitions
from ullage.standalone.apiserver.tables.printers import printer_for

META_V1 = "meta.k8s.io/v1"


def render(
    resource: Resource,
    objects: Sequence[Json],
    *,
    now: datetime,
    include: Include = "Metadata",
    headers: bool = True,
    list_meta: Json,
    api_version: str = META_V1,
) -> Json:
    """A Table of the objects. In a watch only the first event's Table has headers: pass `headers=False` for the others.

    `list_meta` is the list's own metadata; a Table of one object has that object's resourceVersion.
    """
    printer = printer_for(resource)
    rows = []
    for obj in objects:
        row: Json = {"cells": printer.cells(obj, now)}
        if printer.conditions is not None and (conditions := printer.conditions(obj)):
            row["conditions"] = conditions
        row["object"] = _carried(obj, include, api_version)
        rows.append(row)
    columns = list(_definitions(printer.columns)) if headers else None
    return {"kind": "Table", "apiVersion": api_version, "metadata": list_meta, "columnDefinitions": columns, "rows": rows}


def partial(obj: Json, *, api_version: str = META_V1) -> Json:
    """An object without all but its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": obj.get("metadata") or {}}


def partial_list(objects: Sequence[Json], *, list_meta: Json, api_version: str = META_V1) -> Json:
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": api_version,
        "metadata": list_meta,
        "items": [partial(obj, api_version=api_version) for obj in objects],
    }


def _carried(obj: Json, include: Include, api_version: str) -> Json | None:
    match include:
        case "None":
            return None
        case "Object":
            return obj
    return partial(obj, api_version=api_version)


@lru_cache(maxsize=1024)
def _definitions(columns: tuple[Column, ...]) -> tuple[Json, ...]:
    """Column headers as they are sent. They are shared between answers: nobody may change them."""
    return tuple(
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": _description(column.description),
            "priority": column.priority,
        }
        for column in columns
    )


def _description(about: str) -> str:
    """A text, or that of the field which `io.k8s.….PodSpec#nodeName` names in the published definitions."""
    if not about.startswith("io.k8s.") or "#" not in about:
        return about
    definition, _, field = about.partition("#")
    schema = definitions.load().raw.get(definition, {})
    return str(dig(schema, "properties", field, "description") or "")
