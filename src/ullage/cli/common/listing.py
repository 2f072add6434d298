"""Things of one sort, printed as `-o` asks: a table for people, objects for programs, and rows as they change.

Each group of commands says how its things read (`Table`); all else is the same for all. What is more than rows, with remarks
beside it and other tables below, is a `Report`: it is printed whole, and whole again when it reads otherwise.
"""

from __future__ import annotations

import sys
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


# --- more than rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Generic[T]):
    """One reading, and how it is printed."""

    rows: Sequence[T]
    table: Table[T]
    notes: Sequence[str] = ()  # what has to be said beside it
    nothing: str = ""  # what people are told where there are no rows
    text: Callable[[datetime], str] | None = None  # for people, where the table is not all
    single: bool = False

    def for_people(self, output: OutputFormat, now: datetime) -> str:
        return self.text(now) if self.text is not None else shown(self.rows, self.table, output, now=now)

    def remarks(self, output: OutputFormat) -> list[str]:
        return [*self.notes, *([self.nothing] if output.is_table and not self.rows else [])]


def print_report(report: Report[T], output: OutputFormat, *, now: datetime) -> None:
    for one in report.remarks(output):
        _print_remark(one)
    if output.is_table:
        if report.rows:
            print(report.for_people(output, now))
    elif report.rows or output.name != "name":
        print(shown(report.rows, report.table, output, now=now, single=report.single))


class RepeatedReport(Generic[T]):
    """For people it is written whole whenever it reads otherwise; for programs, each thing whenever it is another. That time
    goes by is no reason, and a remark is not made again while it holds."""

    def __init__(self, output: OutputFormat) -> None:
        self._output = output
        self._begun = False
        self._last: Report[T] | None = None
        self._bodies: dict[str, tuple[Json, str]] = {}  # with how each was written
        self._remarks: list[str] = []

    def show(self, report: Report[T], now: datetime) -> None:
        remarks = report.remarks(self._output)
        for one in remarks:
            if one not in self._remarks:
                _print_remark(one)
        self._remarks = remarks
        if self._output.is_table:
            self._show_text(report, now)
        else:
            self._show_bodies(report, now)

    def _show_text(self, report: Report[T], now: datetime) -> None:
        new = report.for_people(self._output, now) if report.rows else ""
        if new and (self._last is None or self._last.for_people(self._output, now) != new):
            print(f"\n{new}" if self._begun else new, flush=True)
            self._begun = True
        self._last = report

    def _show_bodies(self, report: Report[T], now: datetime) -> None:
        table, before = report.table, self._bodies
        self._bodies = {
            table.uid(one): (table.body(one), shown([one], table, self._output, now=now, single=True)) for one in report.rows
        }
        for uid, (body, text) in self._bodies.items():
            if uid not in before or before[uid][0] != body:
                print(text, flush=True)
        for uid in before.keys() - self._bodies.keys():
            print(before[uid][1], flush=True)  # as it was at last, like other lists


def _print_remark(text: str) -> None:
    print(f"ullage: {text}", file=sys.stderr, flush=True)
