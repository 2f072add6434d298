"""Which columns a kind has: built-in ones from the tables beside this module, custom ones from their own definition."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from ullage.standalone.apiserver.kinds.resources import Column, Resource
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.tables import cluster, network, pods, policy, storage, workloads
from ullage.standalone.apiserver.tables.ages import human, parse_time
from ullage.standalone.apiserver.tables.cells import AGE, CREATED, NAME, Printer, name
from ullage.standalone.apiserver.tables.jsonpath import JsonPath, JsonPathError, compile_path

BUILT_IN: dict[tuple[str, str], Printer] = {
    **cluster.PRINTERS,
    **network.PRINTERS,
    **pods.PRINTERS,
    **policy.PRINTERS,
    **storage.PRINTERS,
    **workloads.PRINTERS,
}
# Kinds without columns of their own show when they were made: built-in ones as a date, custom ones as an age.
DEFAULT = Printer((NAME, CREATED), lambda obj, _now: [name(obj), dig(obj, "metadata", "creationTimestamp")])
CUSTOM_DEFAULT = (Column("Age", "date", "", AGE.description, json_path=".metadata.creationTimestamp"),)

Cell = Callable[[Json, datetime], Any]


def printer_for(resource: Resource) -> Printer:
    if resource.custom is None:
        return BUILT_IN.get((resource.group, resource.plural), DEFAULT)
    return _custom(resource.columns or CUSTOM_DEFAULT)


@lru_cache(maxsize=512)
def _custom(columns: tuple[Column, ...]) -> Printer:
    """Compiles a custom kind's columns. One unreadable path makes the kind fall back to the default ones, all of them."""
    try:
        makers = [_cell(column.type, compile_path(column.json_path)) for column in columns]
    except JsonPathError:
        return _custom(CUSTOM_DEFAULT)
    return Printer(
        (NAME, *(_described(column) for column in columns)), lambda obj, now: [name(obj), *(make(obj, now) for make in makers)]
    )


def _described(column: Column) -> Column:
    about = column.description or f"Custom resource definition column (in JSONPath format): {column.json_path}"
    return Column(column.name, column.type, column.format, about, column.priority, column.json_path)


def _cell(kind: str, path: JsonPath) -> Cell:
    """Only the first value of a path is shown; a path that names nothing gives null."""

    def make(obj: Json, now: datetime) -> Any:
        found = path.find(obj) if path.steps else []
        return _shown(kind, found[0], now) if found else None

    return make


def _shown(kind: str, value: Any, now: datetime) -> Any:
    """A value as a cell of the column's type. What does not fit the type is null, not an error."""
    match kind:
        case "string":
            return _text(value)
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return _date(value, now)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if kind == "integer" or value == int(value) else value


def _date(value: Any, now: datetime) -> str | None:
    if not isinstance(value, str):
        return None
    found = parse_time(value)
    return "<invalid>" if found is None else human((now - found).total_seconds())


def _text(value: Any) -> str:
    match value:
        case str():
            return value
        case None:
            return "<no value>"
        case bool():
            return "true" if value else "false"
        case float():
            return _float(value)
        case int():
            return str(value)
    return msgspec.json.encode(value, order="deterministic").decode()


def _float(value: float) -> str:
    """Shortest form, with an exponent only where Go's `%v` would use one."""
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    return repr(value)
