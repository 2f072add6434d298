"""How volumes and their chains of snapshots read in a terminal and a pipe. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from ullage.cli.common.jsonpath import cell, custom_columns, parse, rendered
from ullage.cli.common.listing import Table
from ullage.cli.common.options import OutputFormat
from ullage.cli.common.text import NONE, age, aligned, plain, size, structured
from ullage.cli.volume.chain import Line, Totals, lines, totals
from ullage.cli.volume.reading import FoundVolume
from ullage.engines.api import ENGINE_SNAPSHOTS, VOLUMES, to_bytes
from ullage.engines.chain import HEAD
from ullage.kube.objects import Json

COLUMNS: Final = ("VOLUME", "CLAIM", "STATE", "SIZE", "USED", "SNAPSHOTS", "RECLAIMABLE", "AGE")
WIDE: Final = ("NODE", "ROBUSTNESS", "ENGINE", "ENGINE STATE", "HEAD")
CHAIN: Final = ("NAME", "SIZE", "TAKEN", "AGE", "BY", "STATE")
WIDE_CHAIN: Final = ("PARENT", "LABELS")

# --- lists -----------------------------------------------------------------------------------------------------------


def in_order(found: Sequence[FoundVolume]) -> list[FoundVolume]:
    """By claim; those without one last."""
    return sorted(found, key=lambda one: (not one.claim, one.claim, one.volume.metadata.name))


def layout(*, wide: bool = False) -> Table[FoundVolume]:
    def cells(one: FoundVolume, now: datetime) -> tuple[str, ...]:
        meta, status, amounts = one.volume.metadata, one.volume.status, totals(one.entries)
        known = bool(one.entries)
        found: tuple[str, ...] = (
            meta.name,
            one.claim or NONE,
            state_of(one),
            size(one.size),
            size(amounts.used) if known else NONE,
            str(amounts.snapshots) if known else NONE,
            size(amounts.reclaimable) if known else NONE,
            age(meta.creation_timestamp, now),
        )
        if wide:
            engine = one.engine
            found += (
                status.current_node_id or NONE,
                status.robustness or NONE,
                engine.metadata.name if engine is not None else NONE,
                (engine.status.current_state if engine is not None else "") or NONE,
                size(amounts.head) if known else NONE,
            )
        return found

    return Table(
        head=(*COLUMNS, *(WIDE if wide else ())),
        cells=cells,
        name=lambda one: f"{VOLUMES.kind.lower()}.{VOLUMES.group}/{one.volume.metadata.name}",
        uid=lambda one: one.volume.metadata.uid,
        body=lambda one: {"apiVersion": VOLUMES.api_version, "kind": VOLUMES.kind, **msgspec.to_builtins(one.volume)},
        state="STATE",
    )


def state_of(found: FoundVolume) -> str:
    if found.volume.metadata.deletion_timestamp is not None:
        return "deleting"
    return "migrating" if len(found.engines) > 1 else found.volume.status.state or NONE


# --- the chain of one ------------------------------------------------------------------------------------------------


def tree(found: FoundVolume, *, now: datetime, wide: bool = False) -> str:
    """What was taken first is on top; what is being written to now is at the bottom."""
    rows: list[tuple[str, ...]] = [(*CHAIN, *(WIDE_CHAIN if wide else ()))]
    rows += [_row(line, now=now, wide=wide) for line in lines(found.entries)]
    return "\n".join([heading(found), "", aligned(rows), "", summary(totals(found.entries)), *_cautions(found)])


def heading(found: FoundVolume) -> str:
    volume = found.volume
    claim = f" of claim {found.claim}" if found.claim else ""
    return f"volume {volume.metadata.name}{claim}: {size(found.size)}, {state_of(found)}"


def summary(amounts: Totals) -> str:
    count = f"{amounts.snapshots} snapshot{'' if amounts.snapshots == 1 else 's'}"
    marked = f" and {amounts.removed} removed" if amounts.removed else ""
    return (
        f"{count}{marked}; {size(amounts.used)} used, {size(amounts.head)} of it since the last snapshot; "
        f"a purge could free {'nothing' if not amounts.reclaimable else f'at most {size(amounts.reclaimable)}'}"
    )


def as_json(found: FoundVolume) -> Json:
    """Amounts are whole bytes."""
    amounts = totals(found.entries)
    return {
        "volume": found.volume.metadata.name,
        "claim": found.claim,
        "state": state_of(found),
        "sizeBytes": found.size,
        "usedBytes": amounts.used,
        "headBytes": amounts.head,
        "reclaimableBytes": amounts.reclaimable,
        "snapshots": [_entry_json(line) for line in lines(found.entries)],
    }


def names(found: FoundVolume) -> str:
    """As kubectl names them; the head is no object."""
    prefix = f"{ENGINE_SNAPSHOTS.kind.lower()}.{ENGINE_SNAPSHOTS.group}"
    return "\n".join(f"{prefix}/{plain(line.entry.name)}" for line in lines(found.entries) if line.entry.name != HEAD)


def chain_as(found: FoundVolume, output: OutputFormat) -> str:
    """For programs. In custom columns each entry is a row; all else is of the volume with its entries."""
    if output.name == "name":
        return names(found)
    whole = as_json(found)
    if output.name == "custom-columns":
        columns = custom_columns("--output", output.template)
        rows = [tuple(cell(path.of(entry)) for _, path in columns) for entry in whole["snapshots"]]
        return aligned([tuple(name for name, _ in columns), *rows])
    if output.name == "jsonpath":
        return rendered(parse("--output", output.template), whole)
    return structured(whole, output.name)


def _row(line: Line, *, now: datetime, wide: bool) -> tuple[str, ...]:
    entry = line.entry
    cells: tuple[str, ...] = (
        f"{line.prefix}{plain(entry.name)}",
        size(to_bytes(entry.size)),
        NONE if entry.name == HEAD else plain(entry.created) or NONE,
        NONE if entry.name == HEAD else age(entry.created, now),
        _by(line),
        _state(line),
    )
    if wide:
        labels = ",".join(f"{key}={value}" for key, value in sorted((entry.labels or {}).items()))
        cells += (plain(entry.parent) or NONE, plain(labels) or NONE)
    return cells


def _by(line: Line) -> str:
    if line.entry.name == HEAD:
        return NONE
    return "user" if line.entry.usercreated else "system"


def _state(line: Line) -> str:
    if line.entry.name == HEAD:
        return "head"
    marks = [word for word, true in (("removed", line.entry.removed), ("in a loop", line.loose)) if true]
    return ", ".join(marks) or NONE


def _entry_json(line: Line) -> Json:
    entry = line.entry
    return {
        "name": entry.name,
        "parent": entry.parent,
        "sizeBytes": to_bytes(entry.size),
        "created": entry.created,
        "head": entry.name == HEAD,
        "userCreated": entry.usercreated,
        "removed": entry.removed,
        "labels": dict(entry.labels or {}),
    }


def _cautions(found: FoundVolume) -> list[str]:
    """What keeps this from being how things are now."""
    engine = found.engine
    if engine is None:
        return []
    if engine.status.snapshots_error:
        return [f"as last seen: the engine cannot be asked now: {plain(engine.status.snapshots_error)}"]
    if engine.status.current_state != "running":
        return ["as last seen: the engine is not running"]
    return []
