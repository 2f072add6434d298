"""Things of one sort, printed as `-o` asks: a table for people, objects for programs, and rows as they change.

Each group of commands says how its things read (`Table`); all else is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from ullage.cli.common.jsonpath import cell, custom_columns, parse, rendered
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.text import GAP, aligned, structured
from ullage.kube.objects import Json

T = TypeVar("T")
Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Generic[T]):
    """How things of one sort read. Pure: the time is an argument."""

    head: Cells
    cells: Callable[[T, datetime], Cells]
    name: Callable[[T], str]  # as kubectl names it, and takes it
    uid: Callable[[T], str]
    body: Callable[[T], Json]  # the object, for programs
    state: str  # the column that tells in a watch that it is gone
    ages: tuple[str, ...] = ("AGE",)  # columns that change by themselves: no reason for a new row


def shown(found: Sequence[T], table: Table[T], output: OutputFormat, *, now: datetime, single: bool = False) -> str:
    """`single`: one was named, and is printed by itself and not in a list."""
    if output.is_table:
        return aligned([table.head, *(table.cells(one, now) for one in found)])
    if output.name == "name":
        return "\n".join(table.name(one) for one in found)
    bodies = [table.body(one) for one in found]
    if output.name == "custom-columns":
        columns = custom_columns("--output", output.template)
        rows = [tuple(cell(path.of(body)) for _, path in columns) for body in bodies]
        return aligned([tuple(name for name, _ in columns), *rows])
    whole: Json = bodies[0] if single else {"apiVersion": "v1", "kind": "List", "items": bodies}
    if output.name == "jsonpath":
        return rendered(parse("--output", output.template), whole)
    return structured(whole, output.name)


class ChangingTable(Generic[T]):
    """A table on which rows follow as things change. A row that reads as before is not repeated."""

    def __init__(self, table: Table[T], output: OutputFormat, *, write: Callable[[str], object]) -> None:
        self._table = table
        self._output = output
        self._write = write
        self._widths: list[int] = []
        self._last: dict[str, Cells] = {}
        self._quiet = {place for place, name in enumerate(table.head) if name in table.ages}

    def begin(self, found: Sequence[T], now: datetime) -> None:
        if not self._output.is_table:
            for one in found:
                self._write(shown([one], self._table, self._output, now=now, single=True))
            return
        rows = [self._table.head, *(self._table.cells(one, now) for one in found)]
        self._widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for one, row in zip(found, rows[1:], strict=True):
            self._last[self._table.uid(one)] = self._steady(row)
        self._write(aligned(rows))

    def change(self, one: T, now: datetime, *, gone: bool = False) -> None:
        if not self._output.is_table:
            self._write(shown([one], self._table, self._output, now=now, single=True))
            return
        row = self._table.cells(one, now)
        if gone:
            row = tuple("gone" if name == self._table.state else cell for name, cell in zip(self._table.head, row, strict=True))
        uid = self._table.uid(one)
        if gone or self._last.get(uid) != self._steady(row):
            self._last[uid] = self._steady(row)
            self._write(GAP.join(text.ljust(width) for text, width in zip(row, self._widths, strict=True)).rstrip())
        if gone:
            self._last.pop(uid, None)

    def _steady(self, row: Cells) -> Cells:
        return tuple(cell for place, cell in enumerate(row) if place not in self._quiet)
